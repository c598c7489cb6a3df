//! The pages in HTML: the simple index ([PEP 503](https://peps.python.org/pep-0503/)), with yanks
//! ([592](https://peps.python.org/pep-0592/)), the version of the API
//! ([629](https://peps.python.org/pep-0629/)) and metadata files
//! ([658](https://peps.python.org/pep-0658/), [714](https://peps.python.org/pep-0714/)), and the
//! page for `--find-links`.

use std::{borrow::Cow, fmt::Write as _};

use super::{
    install::{Pinned, requirements},
    packages::{IndexView, Layout, PackageSet, SetFile},
    set_json::device_targets,
    urls::encode_path,
};
use crate::{
    console::{many, size},
    target::Target,
};

/// The version of the repository API ([PEP 629](https://peps.python.org/pep-0629/)). 1.1 means that
/// pages have sizes, versions and upload times ([PEP 700](https://peps.python.org/pep-0700/)).
pub(super) const REPOSITORY_VERSION: &str = "1.1";
/// Works on phones: long file names wrap, and on a narrow screen the size is shown below the name.
/// The pages load no script, font or picture, and follow the reader's light or dark theme.
const STYLE: &str = include_str!("style.css");
/// A page with `{}` for each value that `frame` fills in.
const FRAME: &str = include_str!("page.html");

/// `simple/{project}/index.html`, the newest version first, because people look for it; installers
/// do not depend on the order.
pub(super) fn project_page(
    view: &IndexView,
    project: &str,
    files: &[&SetFile],
    layout: Layout,
) -> String {
    let directory = view.files_from(2, layout);
    let mut list = String::new();
    let versions: Vec<&[&SetFile]> = by_version(files).collect();
    for files in &versions {
        // Most pages have one version. It is in every file name and needs no heading.
        if let Some(first) = files.first().filter(|_| versions.len() > 1) {
            let _ = writeln!(list, "<h2>{}</h2>", escape(&first.version.to_string()));
        }
        list += "<ul>\n";
        for file in *files {
            item(&mut list, file, &directory);
        }
        list += "</ul>\n";
    }
    let lead = format!("<p>{}</p>\n", count_text(files));
    frame(project, &lead, &list)
}

/// `simple/index.html`.
pub(super) fn root_page(view: &IndexView) -> String {
    let mut list = String::from("<ul class=\"short\">\n");
    let mut count = 0;
    for (project, files) in view.projects() {
        count += 1;
        let name = escape(project);
        let newest = files.last().map(|file| file.version.to_string());
        let newest = newest.unwrap_or_default();
        let newest = escape(&newest);
        let _ = writeln!(
            list,
            "<li><a href=\"{name}/\">{name}</a> <span>{newest}</span></li>"
        );
    }
    list += "</ul>\n";
    let lead = format!(
        "<p>{}, {}. Install with the address of this page up to <code>simple/</code>:</p>\n{}",
        many(count, "project"),
        size(view.files.iter().map(|file| file.size).sum()),
        install_lines(
            view,
            "--index-url <address up to simple/>",
            "--default-index <address up to simple/>"
        ),
    );
    frame(&title("Python package index", view), &lead, &list)
}

/// `index.html`: all files of the set on one page. If families have their own pages, the page of
/// the set links to them.
///
/// Its links have hashes and metadata attributes too, so that installers can resolve without
/// downloading wheels. Yanked files are left out, because uv does not respect yanks on such pages.
pub(super) fn find_links_page(view: &IndexView, set: &PackageSet, layout: Layout) -> String {
    let mut content = String::new();
    let families = set.families().into_iter().filter(|_| view.family.is_none());
    let links = families.map(|it| format!("<li><a href=\"{it}/index.html\">{it}</a></li>\n"));
    let links: String = links.collect();
    if !links.is_empty() {
        let _ = writeln!(content, "<h2>By family</h2>\n<ul>\n{links}</ul>");
        content += "<h2>For every family</h2>\n";
    }
    let directory = view.files_from(0, layout);
    content += "<ul>\n";
    let files = view
        .projects()
        .flat_map(|(_, files)| by_version(files))
        .flatten();
    for file in files.filter(|file| file.yanked.is_none()) {
        item(&mut content, file, &directory);
    }
    content += "</ul>\n";
    let (listed, yanked): (Vec<&SetFile>, Vec<&SetFile>) =
        view.files.iter().partition(|file| file.yanked.is_none());
    let left_out = match yanked.len() {
        0 => String::new(),
        1 => "<p>1 yanked file is only in the index.</p>\n".to_owned(),
        count => format!("<p>{count} yanked files are only in the index.</p>\n"),
    };
    let look = "--no-index --find-links <this address>";
    let lead = format!(
        "<p>{}. Install with the address of this page:</p>\n{}{left_out}",
        count_text(&listed),
        install_lines(view, look, look),
    );
    frame(&title("Python packages", view), &lead, &content)
}

/// The command lines on a page, as HTML. Empty if there is nothing to install. A page does not know
/// its own URL; the options in `pip` and `uv` have a placeholder for it.
fn install_lines(view: &IndexView<'_>, pip: &str, uv: &str) -> String {
    let files = view.files.iter().filter(|file| file.yanked.is_none());
    let files: Vec<Pinned<'_>> = files
        .map(|file| (file.project.normalized(), &file.version))
        .collect();
    if files.is_empty() {
        return String::new();
    }
    let targets = device_targets(files.iter().map(|(project, _)| *project));
    let requirement = match requirements(&files, targets.first()).as_slice() {
        [only] => only.clone(),
        _ => "<project>==<version>".to_owned(),
    };
    // Double quotes, because readers on Windows use them too, and `cmd` has no single quotes.
    let lines =
        format!("pip install {pip} \"{requirement}\"\nuv pip install {uv} \"{requirement}\"");
    let lines = lines.lines().map(escape).collect::<Vec<_>>().join("\n");
    let others: Vec<&str> = targets.iter().skip(1).map(Target::as_str).collect();
    let others = match targets.first().filter(|_| !others.is_empty()) {
        Some(first) => format!(
            "<p>For other GPUs, replace <code>{first}</code> with: {}.</p>\n",
            others.join(", ")
        ),
        None => String::new(),
    };
    format!("<pre>{lines}</pre>\n{others}")
}

/// A complete page. `title` is text and gets escaped; `lead`, which introduces the page, and
/// `content` are HTML.
fn frame(title: &str, lead: &str, content: &str) -> String {
    let title = &*escape(title);
    let values = [REPOSITORY_VERSION, title, STYLE, title, lead, content];
    itertools::interleave(FRAME.split("{}"), values).collect()
}

fn title(what: &str, view: &IndexView) -> String {
    match view.family {
        Some(family) => format!("{what} for {family}"),
        None => what.to_owned(),
    }
}

/// Number and total size of files: `3 files, 1.20 GiB`.
fn count_text(files: &[&SetFile]) -> String {
    let total = files.iter().map(|file| file.size).sum();
    format!("{}, {}", many(files.len(), "file"), size(total))
}

fn by_version<'a>(files: &'a [&'a SetFile]) -> impl Iterator<Item = &'a [&'a SetFile]> {
    files.chunk_by(|a, b| a.version == b.version).rev()
}

/// A list item: the link with the attributes that installers read, and the size and other facts for
/// people.
///
/// `data-dist-info-metadata` is the name in [PEP 658](https://peps.python.org/pep-0658/), and pip
/// 23 reads it. `data-core-metadata` is its new name in [PEP
/// 714](https://peps.python.org/pep-0714/). `data-size` and `data-upload-time` are not standardized
/// for HTML, but uv reads them.
fn item(list: &mut String, file: &SetFile, directory: &str) {
    let path = encode_path(&file.below());
    let _ = write!(
        list,
        "<li><a href=\"{directory}{path}#sha256={}\"",
        file.sha256
    );
    let mut attribute = |name: &str, value: &str| {
        let _ = write!(list, " {name}=\"{}\"", escape(value));
    };
    if let Some(requires) = &file.requires_python {
        attribute("data-requires-python", requires);
    }
    if let Some(sidecar) = &file.metadata {
        let digest = format!("sha256={}", sidecar.sha256);
        attribute("data-core-metadata", &digest);
        attribute("data-dist-info-metadata", &digest);
    }
    if let Some(reason) = &file.yanked {
        attribute("data-yanked", reason);
    }
    attribute("data-size", &file.size.to_string());
    if let Some(time) = &file.upload_time {
        attribute("data-upload-time", time);
    }
    let _ = write!(list, ">{}</a>", escape(&file.name));
    if let Some(reason) = &file.yanked {
        let colon = if reason.is_empty() { "" } else { ": " };
        let _ = write!(list, " <em>yanked{colon}{}</em>", escape(reason));
    }
    let _ = writeln!(list, " <span>{}</span></li>", size(file.size));
}

/// Escapes text for an element or a quoted attribute.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_graphic() && !"&<>\"'".contains(c);
    // Most texts are names or numbers, and need no copy.
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Bidirectional control characters could display a different file name.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
