//! The pages in HTML: installers read the links, people the rest.
//!
//! They follow [PEP 503](https://peps.python.org/pep-0503/), with yanks
//! ([592](https://peps.python.org/pep-0592/)), the version of the API
//! ([629](https://peps.python.org/pep-0629/)) and metadata files
//! ([658](https://peps.python.org/pep-0658/), [714](https://peps.python.org/pep-0714/)).
//!
//! The pages of a directory do not know their address, because it can be served anywhere. So their install lines end
//! where the address belongs: a reader copies a line and pastes the address after it. The pages of a bucket have
//! complete lines.
//!
//! Programs take every link of the pages below `simple/` for a project or a file. So what leads people
//! from there to other pages is a form with a button.

use std::{collections::BTreeSet, fmt::Write as _};

use itertools::Itertools as _;

use super::{REPOSITORY_VERSION, link};
use crate::{
    index::{
        install::{requirements, targets},
        package_file::PackageFile,
        projects::{about, grouped},
        set_json::{IndexView, SetJson},
        urls::Urls,
        variants::VariantIndex,
    },
    run::{ArtifactGroup, Platform},
};
use rocwheel_base::{
    quantity::{many, size},
    target::{Target, TargetTable},
};

/// What a page says above its list.
pub(super) struct Head {
    /// The heading as text.
    pub title: String,
    /// A line below the heading, as text; empty for none.
    pub line: String,
    /// HTML below both.
    pub lead: String,
}

/// `simple/{project}/index.html`, the newest version first, because people look for it; installers
/// do not depend on the order.
pub(super) fn project_page(
    view: &IndexView,
    set: &SetJson,
    project: &str,
    files: &[&PackageFile],
    address: Option<&Urls>,
) -> String {
    let directory = format!("{}simple/{project}/", view.top());
    let versions: Vec<&[&PackageFile]> = by_version(files).collect();
    let requirement = if project == "rocm" {
        required(view, &targets_of(view)).pop()
    } else {
        let newest = files.iter().rev().find(|file| file.yanked.is_none());
        newest.map(|file| format!("{project}=={}", file.version))
    };
    let lead = format!(
        "{}{}",
        facts(files, set, &count_text(files), false),
        install_block(requirement.as_deref(), Way::Index, urls_of(view, address).as_ref()),
    );
    let head = Head {
        title: project.to_owned(),
        line: about(project).unwrap_or_default().to_owned(),
        lead,
    };
    let buttons = format!(
        "{}{}",
        button("../", "All projects"),
        button(&find_links(view, &directory), "All packages")
    );
    frame(&head, &buttons, |page| {
        for files in &versions {
            // Most pages have one version. It is in every file name and needs no heading.
            if let Some(first) = files.first().filter(|_| versions.len() > 1) {
                let _ = writeln!(page, "<h2>{}</h2>", escape(&first.version.to_string()));
            }
            add_files(page, files, &view.variants, &directory, Detail::Facts);
        }
    })
}

/// The page of a project beside its files, which are sorted, in a directory that ends in `/`.
pub fn directory_page(project: &str, files: &[&PackageFile], directory: &str) -> String {
    let files: Vec<&PackageFile> = by_version(files).flatten().copied().collect();
    let lead = format!("<p>{}</p>\n", count_text(&files));
    let head = Head { title: project.to_owned(), line: String::new(), lead };
    frame(&head, "", |page| add_files(page, &files, &[], directory, Detail::Facts))
}

/// The page of a product: the directories of its projects.
pub fn directory_root(projects: &BTreeSet<String>) -> String {
    let items = projects.iter().map(|project| {
        let name = escape(project);
        format!("<li><a href=\"{name}/\">{name}</a></li>\n")
    });
    let lead = format!("<p>{}</p>\n", many(projects.len(), "project"));
    let head = Head { title: "Python packages".to_owned(), line: String::new(), lead };
    frame(&head, "", |page| {
        let _ = writeln!(page, "<ul>\n{}</ul>", items.collect::<String>());
    })
}

/// `simple/index.html`.
pub(super) fn root_page(view: &IndexView, set: &SetJson, address: Option<&Urls>) -> String {
    let groups = grouped(view).into_iter().map(|(group, projects)| {
        let items = projects.iter().map(|(project, files)| {
            let name = escape(project);
            let newest =
                files.last().map_or_else(String::new, |file| escape(&file.version.to_string()));
            let paragraph = match about(project) {
                Some(about) => format!("<p>{}</p>", escape(about)),
                None => String::new(),
            };
            format!("<li><a href=\"{name}/\">{name}</a> <span>{newest}</span>{paragraph}</li>\n")
        });
        format!("<h2>{group}</h2>\n<ul>\n{}</ul>\n", items.collect::<String>())
    });
    let count = format!(
        "{}, {}",
        many(view.projects().count(), "project"),
        size(view.files.iter().map(|file| file.size).sum())
    );
    let head = head(view, set, &count, Way::Index, address);
    let directory = format!("{}simple/", view.top());
    let buttons = button(&find_links(view, &directory), "All packages");
    frame(&head, &buttons, |page| page.extend(groups))
}

/// `dist/index.html`: all files of the set on one page, in a directory that is empty or ends in `/`.
/// If families have their own pages, the page of the set links to them.
///
/// Its links have hashes and metadata attributes too, so that installers can resolve without
/// downloading wheels. Yanked files are left out, because uv does not respect yanks on such pages.
pub(super) fn find_links_page(
    view: &IndexView,
    set: &SetJson,
    directory: &str,
    address: Option<&Urls>,
) -> String {
    let families = set.families().into_iter().filter(|_| view.family.is_none());
    let links = families.map(|it| format!("<li><a href=\"{it}.html\">{it}</a></li>\n"));
    let families = match links.collect::<String>() {
        links if links.is_empty() => links,
        links => format!("<h2>By family</h2>\n<ul>\n{links}</ul>\n"),
    };
    let (listed, yanked): (Vec<&PackageFile>, Vec<&PackageFile>) =
        view.files.iter().partition(|file| file.yanked.is_none());
    let left_out = match yanked.len() {
        0 => String::new(),
        1 => ", and 1 yanked file in the index".to_owned(),
        count => format!(", and {count} yanked files in the index"),
    };
    let of_listed = IndexView { files: listed, ..view.clone() };
    let count = count_text(&of_listed.files) + &left_out;
    let head = head(view, set, &count, Way::FindLinks, address);
    let pages = [("Index", "simple/"), ("SHA256SUMS", ""), ("set.json", "")].map(|(name, path)| {
        let path = match path {
            "" => name.to_owned(),
            path => view.top() + path,
        };
        format!("<a href=\"{}\">{name}</a>\n", link(directory, &path))
    });
    let whole = view.family.as_ref().map(|_| {
        let path = format!("{}index.html", view.layout.files());
        format!("<a href=\"{}\">All families</a>\n", link(directory, &path))
    });
    let nav = whole.unwrap_or_default() + &pages.concat();
    frame(&head, &nav, |page| {
        *page += &families;
        for (group, all) in grouped(&of_listed) {
            let files: Vec<&PackageFile> =
                all.iter().flat_map(|(_, files)| by_version(files)).flatten().copied().collect();
            let _ = writeln!(page, "<h2>{group}</h2>");
            add_files(page, &files, &view.variants, directory, Detail::About);
        }
    })
}

/// The beginning of the list of the page of a place; no other page has it.
pub(super) const LIST_OF_PAGES: &str = "<ul id=\"pages\">\n";

/// `index.html` at the top of a place, for people: what the set is, how it is installed, and where its pages are.
/// It links to no package, so an installer that is given its address finds none.
pub(super) fn place_page(set: &SetJson, views: &[IndexView], address: Option<&Urls>) -> String {
    // The first view is the whole set.
    let Some((whole, families)) = views.split_first() else {
        return String::new();
    };
    let index = |view: &IndexView| view.top() + "simple/";
    let item = |href: &str, name: &str, about: &str| {
        format!("<li><a href=\"{href}\">{name}</a><p>{about}</p></li>\n")
    };
    let mut list = LIST_OF_PAGES.to_owned();
    list += &item(&find_links(whole, ""), "All packages", "the page for <code>--find-links</code>");
    list +=
        &item(&index(whole), "Index", "for <code>--index-url</code>, with a page for each project");
    list += &item("SHA256SUMS", "SHA256SUMS", "for <code>sha256sum --check</code>");
    list += &item("set.json", "set.json", "what the set is, with the digest of each file");
    list += "</ul>\n";
    if !families.is_empty() {
        list += "<h2>By family</h2>\n<ul>\n";
        for view in families {
            let page = find_links(view, "");
            let name = view.family.as_ref().map_or("", ArtifactGroup::as_str);
            let index = format!("<a href=\"{}\">index</a>", index(view));
            let _ = writeln!(list, "<li><a href=\"{page}\">{name}</a>, {index}</li>");
        }
        list += "</ul>\n";
    }
    let head = head(whole, set, &count_text(&whole.files), Way::Place, address);
    frame(&head, "", |page| *page += &list)
}

/// The link from a page to the find-links page of its view.
fn find_links(view: &IndexView, directory: &str) -> String {
    let page = view.family.as_ref().map_or("index", ArtifactGroup::as_str);
    link(directory, &format!("{}{page}.html", view.layout.files()))
}

/// What leads from a page below `simple/` to another one.
fn button(href: &str, name: &str) -> String {
    format!("<form action=\"{href}\"><button>{name}</button></form>\n")
}

/// What a page about a whole view says above its list.
fn head(view: &IndexView, set: &SetJson, count: &str, way: Way, address: Option<&Urls>) -> Head {
    let files = view.files.iter();
    let mut rocm = files.filter(|file| file.project.normalized() == "rocm");
    let version = rocm.next().map(|file| &file.version);
    let version = version.filter(|version| rocm.all(|file| file.version == **version));
    let what = match way {
        Way::Index => "Python package index",
        Way::FindLinks | Way::Place => "Python packages",
    };
    let platform = match set.identity.platform {
        Some(Platform::Linux) => Some("Linux"),
        Some(Platform::Windows) => Some("Windows"),
        None => None,
    };
    let family = view.family.as_ref().map(ArtifactGroup::as_str);
    let scope = platform.into_iter().chain(family).join(", ");
    let line = match scope.as_str() {
        "" => what.to_owned(),
        scope => format!("{what} for {scope}"),
    };
    let targets = targets_of(view);
    let required = required(view, &targets);
    let requirement = match required.as_slice() {
        [] => None,
        [only] => Some(only.as_str()),
        _ => Some("PROJECT==VERSION"),
    };
    let lead = format!(
        "{}{}{}",
        facts(&view.files, set, count, !matches!(way, Way::Index)),
        install_block(requirement, way, urls_of(view, address).as_ref()),
        targets_of_lines(&targets),
    );
    match version {
        Some(version) => Head { title: format!("ROCm {version}"), line, lead },
        None => Head { title: line, line: String::new(), lead },
    }
}

/// What `set.json` says about the origin of a set, and what the store says about its age.
fn facts(files: &[&PackageFile], set: &SetJson, count: &str, with_links: bool) -> String {
    let identity = &set.identity;
    let repository = identity.repository.as_ref();
    let named = |name: &str, path: Option<String>| match path {
        // Runs and commits of TheRock and its forks are on this server; a page knows no other one.
        Some(path) if with_links => {
            format!("<a href=\"https://github.com/{path}\">{}</a>", escape(name))
        }
        _ => escape(name),
    };
    let run = identity.run_id.as_ref().map(|run| {
        let path = repository
            .filter(|_| !run.is_local())
            .map(|repository| format!("{repository}/actions/runs/{run}"));
        let of = repository.map(|it| format!(" of {}", escape(&it.to_string())));
        named(run.as_str(), path) + &of.unwrap_or_default()
    });
    let commit = identity.commit.as_ref().map(|commit| {
        let path = repository.map(|it| format!("{it}/commit/{commit}"));
        named(commit.short(), path)
    });
    let times = files.iter().filter_map(|it| it.upload_time.as_deref());
    let time = times.max().map(|time| escape(&moment(time)));
    let facts =
        [("Packages", Some(escape(count))), ("Run", run), ("Commit", commit), ("Uploaded", time)];
    let rows = facts.into_iter().filter_map(|(name, value)| {
        Some(format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", value?))
    });
    format!("<dl>\n{}</dl>\n", rows.collect::<String>())
}

/// `2026-03-01 12:00 UTC` for `2026-03-01T12:00:05.250000Z`
fn moment(time: &str) -> String {
    let day_and_time = time.split_once('T').map(|(day, rest)| (day, rest.get(..5)));
    match day_and_time {
        Some((day, Some(minutes))) => format!("{day} {minutes} UTC"),
        _ => time.to_owned(),
    }
}

/// How the packages of a page are installed.
#[derive(Clone, Copy)]
enum Way {
    Index,
    FindLinks,
    /// From the index, to which the page leads.
    Place,
}

/// The addresses of a view.
fn urls_of(view: &IndexView, address: Option<&Urls>) -> Option<Urls> {
    let urls = address?.clone().in_layout(view.layout);
    Some(match &view.family {
        Some(family) => urls.of_family(family),
        None => urls,
    })
}

/// The command lines of a page. Without an address, each ends where the address of the page belongs. Empty if
/// there is nothing to install.
fn install_block(requirement: Option<&str>, way: Way, urls: Option<&Urls>) -> String {
    let Some(requirement) = requirement else {
        return String::new();
    };
    let (where_, pip, uv) = match way {
        Way::Index => (
            "the address of this page, up to <code>simple/</code>,",
            "--index-url=",
            "--default-index=",
        ),
        Way::FindLinks => {
            ("the address of this page", "--no-index --find-links=", "--no-index --find-links=")
        }
        Way::Place => {
            ("the address of the <a href=\"simple/\">index</a>", "--index-url=", "--default-index=")
        }
    };
    // Double quotes, because readers on Windows use them too, and `cmd` has no single quotes.
    let address = match way {
        Way::Index | Way::Place => urls.map(Urls::index),
        Way::FindLinks => urls.map(Urls::find_links),
    };
    let line = |command: &str, options: &str| {
        let address = address.as_deref().unwrap_or_default();
        let line = format!("{command} install \"{requirement}\" {options}{address}");
        format!("<pre>{}</pre>\n", escape(&line))
    };
    let how = match &address {
        Some(_) => "copy a line:".to_owned(),
        None => format!("copy a line and paste {where_} at its end:"),
    };
    format!("<p>To install, {how}</p>\n{}{}", line("pip", pip), line("uv pip", uv))
}

/// The targets to choose from, of which the install lines name the first.
fn targets_of(view: &IndexView) -> Vec<Target> {
    targets(view.files.iter().copied().filter(|file| file.yanked.is_none()))
}

/// What the install lines of a view ask for.
fn required(view: &IndexView, targets: &[Target]) -> Vec<String> {
    requirements(view.files.iter().copied(), targets.first())
}

/// Which GPU the install lines are for, and the names of the other ones.
fn targets_of_lines(targets: &[Target]) -> String {
    let Some((first, others)) = targets.split_first() else {
        return String::new();
    };
    let product = match TargetTable::builtin().product(first) {
        Some(product) => format!(", {}", escape(product)),
        None => String::new(),
    };
    let hint = match others.iter().map(|it| format!("<code>{it}</code>")).join(", ").as_str() {
        "" => String::new(),
        others => format!(" For another GPU, write its name instead: {others}."),
    };
    format!("<p>The lines are for <code>{first}</code>{product}.{hint}</p>\n")
}

/// The style sheet of every page.
pub(super) const STYLE: &str = include_str!("../style.css");

/// What ends every page.
const END: &str = "</main>\n</body>\n</html>\n";

/// A complete page. The title is text and gets escaped; `nav` is HTML, and so is what `add_content` adds. A list of
/// thousands of files is written to the page at once, so that it is in memory only once.
///
/// The style works on phones: long file names wrap. The pages load no script, font or picture, and
/// follow the reader's light or dark theme. A click selects a whole command line.
pub(super) fn frame(head: &Head, nav: &str, add_content: impl FnOnce(&mut String)) -> String {
    let nav = Some(nav).filter(|nav| !nav.is_empty());
    let paragraph = match head.line.as_str() {
        "" => String::new(),
        line => format!("<p>{}</p>\n", escape(line)),
    };
    let heading = format!("<h1>{}</h1>\n{paragraph}", escape(&head.title));
    let mut page = format!(
        include_str!("../page_top.html"),
        version = REPOSITORY_VERSION,
        title =
            escape(&[&head.title, &head.line].into_iter().filter(|it| !it.is_empty()).join(", ")),
        heading = heading,
        style = STYLE,
        nav = nav.map_or(String::new(), |nav| format!("<nav>\n{nav}</nav>\n")),
        lead = head.lead,
    );
    add_content(&mut page);
    page + END
}

/// Number and total size of files: `3 files, 1.20 GiB`.
fn count_text(files: &[&PackageFile]) -> String {
    let total = files.iter().map(|file| file.size).sum();
    format!("{}, {}", many(files.len(), "file"), size(total))
}

fn by_version<'a>(files: &'a [&'a PackageFile]) -> impl Iterator<Item = &'a [&'a PackageFile]> {
    files.chunk_by(|a, b| a.version == b.version).rev()
}

/// How much the rows of a list say about their files.
#[derive(Clone, Copy)]
enum Detail {
    /// What the package is for.
    About,
    /// Digest, Python and time.
    Facts,
}

/// Adds a list of files to a page, which may have thousands of them. What the labels of variant wheels mean follows
/// the files of each version.
fn add_files(
    list: &mut String,
    files: &[&PackageFile],
    variants: &[VariantIndex],
    directory: &str,
    detail: Detail,
) {
    list.push_str("<ul>\n");
    for version in files.chunk_by(|a, b| (&a.project, &a.version) == (&b.project, &b.version)) {
        for file in version {
            add_file(list, file, directory, detail);
        }
        let is_of_version = |index: &&VariantIndex| version.iter().any(|file| index.has(file));
        for index in variants.iter().filter(is_of_version) {
            add_variant_index(list, index, directory);
        }
    }
    list.push_str("</ul>\n");
}

/// A list item: the link with the attributes that installers read, and the size and other facts for
/// people.
///
/// `data-dist-info-metadata` is the name in [PEP 658](https://peps.python.org/pep-0658/), and pip
/// 23 reads it. `data-core-metadata` is its new name in [PEP
/// 714](https://peps.python.org/pep-0714/). `data-size` and `data-upload-time` are not standardized
/// for HTML, but uv reads them.
fn add_file(list: &mut String, file: &PackageFile, directory: &str, detail: Detail) {
    let digest = file.metadata.map(|sha256| format!("sha256={sha256}"));
    let attributes = [
        ("requires-python", file.requires_python.clone()),
        ("core-metadata", digest.clone()),
        ("dist-info-metadata", digest),
        ("yanked", file.yanked.clone()),
        ("size", Some(file.size.to_string())),
        ("upload-time", file.upload_time.clone()),
    ];
    let data = attributes
        .into_iter()
        .filter_map(|(name, value)| Some(format!(" data-{name}=\"{}\"", escape(&value?))));
    let yanked = file.yanked.as_deref().map(|reason| {
        let colon = if reason.is_empty() { "" } else { ": " };
        format!(" <em>yanked{colon}{}</em>", escape(reason))
    });
    let note = match detail {
        Detail::About => about(file.project.normalized()).map(escape),
        Detail::Facts => Some(file_facts(file)),
    };
    let _ = writeln!(
        list,
        "<li><a href=\"{}#sha256={}\"{}>{}</a> <span>{}</span>{}{}</li>",
        link(directory, &file.path),
        file.sha256,
        data.collect::<String>(),
        escape(file.name()),
        size(file.size),
        yanked.unwrap_or_default(),
        note.map_or_else(String::new, |note| format!("<p>{note}</p>")),
    );
}

/// A list item with only the attributes that PEP 825 allows: it has no metadata, needs no Python and is never yanked.
fn add_variant_index(list: &mut String, index: &VariantIndex, directory: &str) {
    let _ = writeln!(
        list,
        "<li><a href=\"{}#sha256={}\" data-size=\"{}\">{}</a><p>what the labels of the variant wheels mean</p></li>",
        link(directory, &index.path),
        index.sha256,
        index.body.len(),
        escape(index.name()),
    );
}

/// The digest of a file, the Python that it needs, and when it was uploaded, as HTML.
fn file_facts(file: &PackageFile) -> String {
    let python = file.requires_python.as_deref().map(|it| format!("Python {}", escape(it)));
    let time = file.upload_time.as_deref().map(|it| format!("uploaded {}", escape(&moment(it))));
    let digest = format!("<code>sha256:{}</code>", file.sha256);
    let facts = [python, time, Some(digest)].into_iter().flatten();
    facts.collect::<Vec<_>>().join(" · ")
}

/// Escapes text for an element or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let is_plain = |byte: u8| {
        matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'')
    };
    if text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // Bidirectional control characters could display a different file name.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
