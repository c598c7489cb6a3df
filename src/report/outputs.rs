//! Step outputs of GitHub Actions, in the format of the `GITHUB_OUTPUT` file.

use std::{collections::BTreeMap, fmt::Write as _};

use itertools::Itertools as _;

use crate::{
    index::{SetJson, Urls},
    run::ArtifactGroup,
};
use rocwheel_base::{
    digest::Sha256,
    error::{Result, ensure},
};

/// GitHub drops the outputs of a job if they are longer than 1 MB, counted as UTF-16.
const LIMIT: usize = 1_000_000;

/// The outputs for a set, by name: ours, then those that jobs of TheRock read. Addresses are
/// empty if the set is not published.
///
/// If a set has a directory for each family, the index at its top has no `rocm`. The outputs then
/// have the index of each family. With a single family, its index is the only one that is useful.
pub fn of(set: &SetJson, urls: Option<&Urls>) -> Vec<(&'static str, String)> {
    let families = set.own_families();
    let split = (!set.device_targets().is_empty()).to_string();
    // In TheRock, `kpack_split` does not say whether the set has device wheels. It says that the address is
    // the address of a page that serves every family, so that later jobs use it as it is.
    let is_for_all = families.is_empty() && !urls.is_some_and(Urls::is_of_family);
    let version = set.identity.version.as_ref().map(ToString::to_string).unwrap_or_default();
    let main = match families.as_slice() {
        [only] => urls.map(|urls| urls.of_family(only)),
        _ => urls.cloned(),
    };
    let main_address = |page: fn(&Urls) -> String| main.as_ref().map(page).unwrap_or_default();
    // Addresses by family: `{"gfx94X-dcgpu":"https://…"}`. `{}` for a set that is not divided into
    // families.
    let family_addresses = |page: fn(&Urls) -> String| {
        let address =
            |family: &ArtifactGroup| Some((family.to_string(), page(&urls?.of_family(family))));
        let addresses: BTreeMap<String, String> = families.iter().filter_map(address).collect();
        serde_json::to_string(&addresses).unwrap_or_default()
    };
    // As TheRock's uploader writes it: the address of the page, or, with families, the address to which
    // callers append `/{family}/index.html`.
    let find_links_of_therock = match urls {
        Some(urls) if !families.is_empty() => urls.files(),
        urls => urls.map(Urls::find_links).unwrap_or_default(),
    };
    vec![
        ("package-index-url", main_address(Urls::index)),
        ("package-find-links-url", main_address(Urls::find_links)),
        ("family-index-urls", family_addresses(Urls::index)),
        ("family-find-links-urls", family_addresses(Urls::find_links)),
        ("kpack-split", split),
        ("version", version.clone()),
        ("targets", set.identity.targets.iter().join(",")),
        ("package_index_url", main_address(Urls::index)),
        ("package_find_links_url", find_links_of_therock),
        ("kpack_split", is_for_all.to_string()),
        ("rocm_package_version", version),
    ]
}

/// The same outputs for the packages of a product, which have an index and no find-links page.
pub fn of_product(set: &SetJson, index: &str) -> Vec<(&'static str, String)> {
    let value = |name, value| match name {
        "package-index-url" | "package_index_url" => index.to_owned(),
        _ => value,
    };
    of(set, None).into_iter().map(|(name, of_set)| (name, value(name, of_set))).collect()
}

/// Renders the text to append to the `GITHUB_OUTPUT` file.
///
/// Each value is between two delimiter lines. A value that contains its delimiter could end its
/// output early and set another one. So the delimiter has the SHA-256 of the value: to contain it,
/// a value would have to contain its own digest.
pub fn render(outputs: &[(impl AsRef<str>, String)]) -> Result<String> {
    let mut lines = String::new();
    for (name, value) in outputs {
        let output = name.as_ref();
        let delimiter = format!("rocwheel_{}", Sha256::of(value.as_bytes()));
        ensure!(
            !value.contains(&delimiter),
            "a value that contains its delimiter, for the output `{output}`"
        );
        // The runner ends a line at a carriage return too.
        ensure!(!value.contains('\r'), "a carriage return in the value of the output `{output}`");
        let _ = writeln!(lines, "{output}<<{delimiter}\n{value}\n{delimiter}");
    }
    let bytes = lines.encode_utf16().count() * 2;
    ensure!(bytes <= LIMIT, "too long for the outputs of a job: {bytes} bytes of {LIMIT}");
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests as samples;

    /// Parses the file like the runner of GitHub Actions.
    fn read(text: &str) -> Vec<(String, String)> {
        let mut lines = text.lines();
        let mut outputs = Vec::new();
        while let Some((name, delimiter)) = lines.next().and_then(|line| line.split_once("<<")) {
            let value: Vec<&str> = lines.by_ref().take_while(|line| *line != delimiter).collect();
            outputs.push((name.to_owned(), value.join("\n")));
        }
        outputs
    }

    #[test]
    fn a_set_has_these_outputs() {
        let outputs = of(&samples::document(), Some(&samples::urls()));
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
        package-find-links-url=https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html
        family-index-urls={}
        family-find-links-urls={}
        kpack-split=true
        version=7.13.0.dev0+ab
        targets=gfx942,gfx1100
        package_index_url=https://bucket.s3.amazonaws.com/1-linux/python/simple/
        package_find_links_url=https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html
        kpack_split=true
        rocm_package_version=7.13.0.dev0+ab
        "#);
    }

    /// The value of one output.
    fn value(set: &SetJson, urls: Option<&Urls>, name: &str) -> String {
        let outputs = of(set, urls).into_iter();
        let mut named = outputs.filter(|(other, _)| *other == name);
        named.next().unwrap().1
    }

    /// What later jobs of TheRock make of the outputs (spec: the address as it is if `kpack_split`,
    /// else that of their family below it).
    #[test]
    fn kpack_split_says_what_the_address_is() {
        let urls = |text: &str| text.parse::<Urls>().unwrap();
        let all = urls("https://host/1-linux/python/");
        let of_group = urls("https://host/1-linux/python/gfx94X-dcgpu/");
        let (kpack, legacy) = (samples::document(), samples::document_of(&["rocm"]));
        assert!(legacy.device_targets().is_empty());
        let families = samples::document_of_families(&["gfx94X-dcgpu"]);
        let rows = [
            (&kpack, &all, "true"),
            (&legacy, &all, "true"),
            (&families, &all, "false"),
            (&kpack, &of_group, "false"),
            (&legacy, &of_group, "false"),
        ];
        for (set, urls, expected) in rows {
            assert_eq!(value(set, Some(urls), "kpack_split"), expected, "{urls}");
            let page = value(set, Some(urls), "package_find_links_url");
            assert_eq!(page.ends_with("/index.html"), set.families().is_empty(), "{page}");
        }
    }

    const ADDRESSES: [&str; 5] = [
        "package-index-url",
        "package-find-links-url",
        "family-index-urls",
        "family-find-links-urls",
        "package_find_links_url",
    ];

    #[test]
    fn of_several_families_each_has_its_own_addresses() {
        let urls = samples::urls();
        let set = samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"]);
        let values = ADDRESSES.map(|name| value(&set, Some(&urls), name));
        insta::assert_snapshot!(values.join("\n"), @r#"
        https://bucket.s3.amazonaws.com/1-linux/python/simple/
        https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html
        {"gfx110X-all":"https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/","gfx94X-dcgpu":"https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/"}
        {"gfx110X-all":"https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx110X-all.html","gfx94X-dcgpu":"https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx94X-dcgpu.html"}
        https://bucket.s3.amazonaws.com/1-linux/python/dist
        "#);
        let only = samples::document_of_families(&["gfx94X-dcgpu"]);
        let values = ADDRESSES.map(|name| value(&only, Some(&urls), name));
        insta::assert_snapshot!(values.join("\n"), @r#"
        https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/
        https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx94X-dcgpu.html
        {"gfx94X-dcgpu":"https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/"}
        {"gfx94X-dcgpu":"https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx94X-dcgpu.html"}
        https://bucket.s3.amazonaws.com/1-linux/python/dist
        "#);
    }

    #[test]
    fn a_set_that_is_published_nowhere_has_no_addresses() {
        let set = samples::document_of_families(&["gfx94X-dcgpu"]);
        let values = ADDRESSES.map(|name| value(&set, None, name));
        assert_eq!(values, ["", "", "{}", "{}", ""]);
        assert_eq!(value(&set, None, "version"), "7.13.0.dev0+ab");
    }

    #[test]
    fn no_value_ends_its_own_output() {
        let value = "a\nrocwheel_x\nname<<EOF\ninjected\nEOF\nghadelimiter_";
        let text = render(&[("name", value.into()), ("next", "1".into())]).unwrap();
        let expected = [("name".to_owned(), value.to_owned()), ("next".into(), "1".into())];
        assert_eq!(read(&text), expected);
        let refused = render(&[("name", "a\rb".into())]).unwrap_err();
        insta::assert_snapshot!(refused, @"a carriage return in the value of the output `name`");
    }

    #[test]
    fn more_than_a_job_may_say_is_refused() {
        let refused = render(&[("set-json", "x".repeat(LIMIT / 2))]).unwrap_err();
        insta::assert_snapshot!(refused, @"too long for the outputs of a job: 1000318 bytes of 1000000");
    }
}
