//! The page of a project of which only another page is known: with the links of that one.

use super::html::{Head, escape, frame};
use crate::{
    console::{many, size},
    set::links::PageLink,
};

/// What a page of the project says of its files, with other links.
pub(in crate::set) fn linked_page(project: &str, files: &[(String, PageLink)]) -> String {
    let items = files.iter().map(|(name, file)| item(name, file));
    let head = Head {
        title: project.to_owned(),
        line: String::new(),
        lead: format!("<p>{}</p>\n", many(files.len(), "file")),
    };
    let list = format!("<ul>\n{}</ul>\n", items.collect::<String>());
    frame(&head, "", &list)
}

/// A list item with those facts that are known.
fn item(name: &str, file: &PageLink) -> String {
    let digest = file.metadata.map(|sha256| format!("sha256={sha256}"));
    let digest = digest.or_else(|| file.has_metadata.then(|| "true".to_owned()));
    let attributes = [
        ("requires-python", file.requires_python.clone()),
        ("core-metadata", digest.clone()),
        ("dist-info-metadata", digest),
        ("yanked", file.yanked.clone()),
        ("size", file.size.map(|it| it.to_string())),
        ("upload-time", file.upload_time.clone()),
    ];
    let attributes = attributes.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!(" data-{name}=\"{}\"", escape(&value)))
    });
    let yanked = file.yanked.as_deref().map(|reason| {
        let colon = if reason.is_empty() { "" } else { ": " };
        format!(" <em>yanked{colon}{}</em>", escape(reason))
    });
    let sha256 = file.sha256.map(|it| format!("#sha256={it}"));
    let size = file.size.map(|it| format!(" <span>{}</span>", size(it)));
    format!(
        "<li><a href=\"{}{}\"{}>{}</a>{}{}</li>\n",
        escape(&file.href),
        sha256.unwrap_or_default(),
        attributes.collect::<String>(),
        escape(name),
        size.unwrap_or_default(),
        yanked.unwrap_or_default(),
    )
}
