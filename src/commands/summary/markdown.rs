//! The job summary of a published set, in Markdown.

use std::fmt::Write as _;

use super::install::{self, Way};
use crate::index::{Identity, SetJson, SetJsonFile, Urls, size_text};

/// GitHub drops a step's summary above 1 MiB, all of it.
pub const LIMIT: usize = 1000 * 1024;

/// More targets than there are; what is longer was not written by a build.
const MOST_TARGETS: usize = 64;
const LONGEST_TEXT: usize = 300;

/// A summary of at most `limit` bytes; rows of files are left out as needed, and counted. Empty
/// when there is no room for more than rows.
pub fn render(set: &SetJson, urls: &Urls, server: &str, limit: usize) -> String {
    let mut text = head(set, urls, server);
    text.push_str(&installation(set, urls));
    text.push_str("### Files\n\n| File | Size | SHA-256 |\n| :--- | ---: | :--- |\n");
    let mut files = set.files().iter();
    let reserve = 100;
    if text.len() + reserve > limit {
        return String::new();
    }
    let mut omitted = 0;
    for file in files.by_ref() {
        let row = row(file, urls);
        if text.len() + row.len() + reserve > limit {
            omitted = 1 + files.len();
            break;
        }
        text.push_str(&row);
    }
    let total: u64 = set.files().iter().map(|file| file.size).sum();
    if omitted > 0 {
        let _ = writeln!(text, "\n{omitted} rows omitted.");
    }
    let count = set.files().len();
    let noun = if count == 1 { "file" } else { "files" };
    let _ = writeln!(text, "\n{count} {noun}, {}.", size_text(total));
    text
}

fn head(set: &SetJson, urls: &Urls, server: &str) -> String {
    let identity = &set.identity;
    let version = identity.version.as_ref();
    let version = version.map(|version| format!(" {}", code(&version.to_string())));
    let mut text = format!(
        "## ROCm Python packages{}\n\n| | |\n| :--- | :--- |\n",
        version.unwrap_or_default()
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "| {name} | {value} |");
    };
    if let Some(run) = run(identity, server) {
        row("Run", run);
    }
    if let Some(commit) = &identity.commit {
        let commit = commit.to_string();
        let link = identity
            .repository
            .as_ref()
            .map(|name| format!("{name}/commit/{commit}"));
        row("Commit", linked(&commit, link, server));
    }
    if let Some(platform) = &identity.platform {
        row("Platform", code(platform.as_str()));
    }
    let targets = identity.targets.iter().take(MOST_TARGETS);
    let targets: Vec<String> = targets.map(|name| code(name.as_str())).collect();
    if !targets.is_empty() {
        row("Targets", targets.join(" "));
    }
    row("Index", format!("<{}>", urls.index()));
    row("Find-links", format!("<{}>", urls.find_links()));
    text + "\n"
}

fn run(identity: &Identity, server: &str) -> Option<String> {
    let run = identity.run_id.as_ref()?;
    let repository = identity.repository.as_ref().filter(|_| !run.is_local());
    let link = repository.map(|name| format!("{name}/actions/runs/{run}"));
    Some(linked(run.as_str(), link, server))
}

/// A text with a link to a path on the server, if that is a plain one.
fn linked(text: &str, path: Option<String>, server: &str) -> String {
    let url = path.and_then(|path| format!("{server}/{path}").parse::<Urls>().ok());
    match url {
        Some(url) => format!(
            "[{}]({})",
            code(text),
            url.to_string().trim_end_matches('/')
        ),
        None => code(text),
    }
}

fn installation(set: &SetJson, urls: &Urls) -> String {
    let mut text = String::from("### Install\n\n");
    for way in Way::ALL {
        let mut lines = install::lines(set, urls, way);
        lines.truncate(MOST_TARGETS);
        let _ = writeln!(text, "{}:\n\n```\n{}\n```\n", way.title(), lines.join("\n"));
    }
    text
}

fn row(file: &SetJsonFile, urls: &Urls) -> String {
    let (name, url) = (code(file.name()), urls.path(file.path()));
    let size = size_text(file.size);
    format!("| [{name}]({url}) | {size} | `{}` |\n", file.sha256)
}

/// Text as code, whatever it holds: it cannot end its cell, its element or its line.
fn code(text: &str) -> String {
    let mut out = String::from("<code>");
    for c in text.chars().take(LONGEST_TEXT) {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '.' | '+' | '_' | ' ' => out.push(c),
            c if c.is_ascii_punctuation() => _ = write!(out, "&#{};", u32::from(c)),
            c if c.is_alphanumeric() => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out + "</code>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::summary::samples;

    const SERVER: &str = "https://github.com";

    #[test]
    fn a_summary_says_what_it_is_how_to_install_it_and_what_is_in_it() {
        let text = render(&samples::set(), &samples::urls(), SERVER, LIMIT);
        insta::assert_snapshot!(text, @"
        ## ROCm Python packages <code>7.13.0.dev0+ab</code>

        | | |
        | :--- | :--- |
        | Run | [<code>21440027240</code>](https://github.com/ROCm/TheRock/actions/runs/21440027240) |
        | Commit | [<code>89553ce3746eda74ade42557470d25e37c91b6f0</code>](https://github.com/ROCm/TheRock/commit/89553ce3746eda74ade42557470d25e37c91b6f0) |
        | Platform | <code>linux</code> |
        | Targets | <code>gfx1100</code> <code>gfx942</code> |
        | Index | <https://bucket.s3.amazonaws.com/1-linux/python/simple/> |
        | Find-links | <https://bucket.s3.amazonaws.com/1-linux/python/index.html> |

        ### Install

        pip:

        ```
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        ```

        uv:

        ```
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        ```

        pip, from one page:

        ```
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        ```

        ### Files

        | File | Size | SHA-256 |
        | :--- | ---: | :--- |
        | [<code>rocm-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm-7.13.0.dev0%2Bab.tar.gz) | 1.2 MiB | `4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24` |
        | [<code>rocm_sdk_core-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_core-7.13.0.dev0%2Bab.tar.gz) | 1.2 MiB | `b4f104c33b0531684f20769dd3cfbe6fbe36ddfbe2c16ef81b2154906708e0a1` |
        | [<code>rocm_sdk_devel-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_devel-7.13.0.dev0%2Bab.tar.gz) | 1.2 MiB | `0f872144808fed8f9bdc64a8db3f0487522d76c9306a315d72a5ac67110edda3` |
        | [<code>rocm_sdk_device_gfx1100-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_device_gfx1100-7.13.0.dev0%2Bab.tar.gz) | 1.2 MiB | `2d01689b386ba4db8df5110ce9c1c8f14f7e014668fceb2b340a35a32756c5ea` |
        | [<code>rocm_sdk_device_gfx942-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_device_gfx942-7.13.0.dev0%2Bab.tar.gz) | 1.2 MiB | `c817a8b7c5800e688fbc9730f2ea013c6787e1878f3008cce3d8038e259157f4` |
        | [<code>rocm_sdk_libraries-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_libraries-7.13.0.dev0%2Bab.tar.gz) | 1.2 MiB | `8a2b5cb25e25025509a2cbe229c016a501023beebeb4fe654a6a29c3cc713d5a` |

        6 files, 7.1 MiB.
        ");
    }

    #[test]
    fn nothing_known_is_nothing_said() {
        let set = samples::set_of(&["torch"]);
        insta::assert_snapshot!(head(&set, &samples::urls(), SERVER), @r"
        ## ROCm Python packages

        | | |
        | :--- | :--- |
        | Index | <https://bucket.s3.amazonaws.com/1-linux/python/simple/> |
        | Find-links | <https://bucket.s3.amazonaws.com/1-linux/python/index.html> |
        ");
    }

    #[test]
    fn a_long_table_is_cut_and_says_so() {
        let projects: Vec<String> = (0..9000)
            .map(|number| format!("project-{number}"))
            .collect();
        let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
        let set = samples::set_of(&[&["rocm"], projects.as_slice()].concat());
        let text = render(&set, &samples::urls(), SERVER, LIMIT);
        assert!(
            text.len() <= LIMIT && text.len() > LIMIT - 1000,
            "{}",
            text.len()
        );
        let rows = text
            .lines()
            .filter(|line| line.starts_with("| [<code>"))
            .count();
        assert!(text.contains(&format!("\n{} rows omitted.\n", 9001 - rows)));
        assert!(
            text.ends_with("9001 files, 10.3 GiB.\n"),
            "{}",
            &text[text.len() - 60..]
        );
    }

    #[test]
    fn no_room_at_all_is_nothing_at_all() {
        let set = samples::set();
        for limit in 0..3000 {
            let text = render(&set, &samples::urls(), SERVER, limit);
            assert!(text.len() <= limit, "{} of {limit}", text.len());
        }
        assert_eq!(render(&set, &samples::urls(), SERVER, 1000), "");
    }

    #[test]
    fn a_hostile_name_stays_in_its_cell() {
        let hostile = "a|b`c</code>\n| x |\n```<script>[x](y)&amp;*_\u{202e}é.whl";
        insta::assert_snapshot!(code(hostile), @"<code>a&#124;b&#96;c&#60;&#47;code&#62;�&#124; x &#124;�&#96;&#96;&#96;&#60;script&#62;&#91;x&#93;&#40;y&#41;&#38;amp&#59;&#42;_�é.whl</code>");
    }
}
