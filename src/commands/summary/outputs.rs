//! Step outputs, in the form that `GITHUB_OUTPUT` takes.

use std::fmt::Write as _;

use crate::{
    digest::Sha256,
    error::{Hint as _, Result, ensure},
    index::{SetJson, Urls},
};

/// GitHub drops the outputs of a job above 1 MB, counted in UTF-16.
const LIMIT: usize = 1_000_000;

/// The outputs of a published set, by name: ours, then those that upstream's uploader writes.
pub fn of(set: &SetJson, urls: &Urls) -> Vec<(&'static str, String)> {
    let split = (!set.device_targets().is_empty()).to_string();
    let targets: Vec<String> = set
        .identity
        .targets
        .iter()
        .map(ToString::to_string)
        .collect();
    let version = set.identity.version.as_ref();
    vec![
        ("package-index-url", urls.index()),
        ("package-find-links-url", urls.find_links()),
        ("kpack-split", split.clone()),
        (
            "version",
            version.map(ToString::to_string).unwrap_or_default(),
        ),
        ("targets", targets.join(",")),
        ("set-json", set.compact()),
        ("package_find_links_url", urls.find_links()),
        ("kpack_split", split),
    ]
}

/// The text to append to the file.
///
/// Every value stands between two delimiters, so that none can end its own output and begin
/// another. A delimiter is made of its value's digest: a value would have to hold its own digest.
pub fn render(outputs: &[(&str, String)]) -> Result<String> {
    let mut text = String::new();
    for (name, value) in outputs {
        let delimiter = format!("rocwheel_{}", Sha256::of(value.as_bytes()));
        ensure!(
            !value.contains(&delimiter) && !value.contains('\r'),
            "a value that would end early for the output `{name}`"
        );
        let _ = writeln!(text, "{name}<<{delimiter}\n{value}\n{delimiter}");
    }
    let units = text.encode_utf16().count() * 2;
    let check = || -> Result<()> {
        ensure!(
            units <= LIMIT,
            "too much for the outputs of a job: {units} bytes of {LIMIT}"
        );
        Ok(())
    };
    check().hint("read `set.json` from the published set instead")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commands::summary::samples, error};

    /// What the runner makes of the file.
    fn read(text: &str) -> Vec<(String, String)> {
        let mut lines = text.lines();
        let mut outputs = Vec::new();
        while let Some((name, delimiter)) = lines.next().and_then(|line| line.split_once("<<")) {
            let value: Vec<&str> = lines
                .by_ref()
                .take_while(|line| *line != delimiter)
                .collect();
            outputs.push((name.to_owned(), value.join("\n")));
        }
        outputs
    }

    #[test]
    fn a_set_has_these_outputs() {
        let outputs = of(&samples::set(), &samples::urls());
        let read = read(&render(&outputs).unwrap());
        let lines: Vec<String> = read
            .iter()
            .map(|(name, value)| {
                let value: String = value.chars().take(90).collect();
                format!("{name}={value}")
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        package-index-url=https://bucket.s3.amazonaws.com/1-linux/python/simple/
        package-find-links-url=https://bucket.s3.amazonaws.com/1-linux/python/index.html
        kpack-split=true
        version=7.13.0.dev0+ab
        targets=gfx1100,gfx942
        set-json={"schema":1,"repository":"ROCm/TheRock","run-id":"21440027240","platform":"linux","commit"
        package_find_links_url=https://bucket.s3.amazonaws.com/1-linux/python/index.html
        kpack_split=true
        "#);
    }

    #[test]
    fn no_value_ends_its_own_output() {
        let value = "a\nrocwheel_x\nname<<EOF\ninjected\nEOF\nghadelimiter_";
        let text = render(&[("name", value.into()), ("next", "1".into())]).unwrap();
        let expected = [
            ("name".to_owned(), value.to_owned()),
            ("next".into(), "1".into()),
        ];
        assert_eq!(read(&text), expected);
        let refused = render(&[("name", "a\rb".into())]).unwrap_err();
        insta::assert_snapshot!(refused, @"a value that would end early for the output `name`");
    }

    #[test]
    fn more_than_a_job_may_say_is_refused() {
        let refused = render(&[("set-json", "x".repeat(LIMIT / 2))]).unwrap_err();
        insta::assert_snapshot!(error::render(&refused), @r"
        error: too much for the outputs of a job: 1000318 bytes of 1000000

        hint: read `set.json` from the published set instead
        ");
    }
}
