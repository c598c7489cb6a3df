//! The page that lists the tarballs of a directory.
//!
//! It has the line that TheRock's page generator writes, `const files = [{"name": "…", "mtime": …}];`,
//! which `rocwheel install` and other programs read; and links for people.

use std::{fmt::Write as _, time::UNIX_EPOCH};

use serde::Serialize;

use super::{
    items::{Action, Before, Item},
    pages::{Phase, escape},
    place::SetPlace,
    upload::until_published,
    write::Writer,
};
use crate::{
    console::World,
    error::{Context as _, Result},
    location::percent_encode,
    store::{Depth, Object},
};

#[derive(Serialize)]
struct ListedTarball<'a> {
    name: &'a str,
    mtime: u64,
}

/// Writes the page of a directory from the files that are there. If another job changes it meanwhile,
/// starts again.
pub fn index_tarballs(place: &SetPlace, directory: &str, world: &World) -> Result<()> {
    let attempt = || {
        let mut before = Before::nothing(place);
        before.add(directory)?;
        let top = format!("{directory}/");
        let listed = place.list(&top, Depth::Children)?;
        let mut items = Item::directory_page(&top, Phase::Root, &page(&top, &listed)?).to_vec();
        let has_keys = place.directory_pages && place.local().is_none();
        items.retain(|item| has_keys || !item.is_directory());
        let actions = before.actions(&items, true, &world.stop)?;
        let mut planned: Vec<(Item, Action)> = items.into_iter().zip(actions).collect();
        planned.retain(|(_, action)| *action != Action::Same);
        let writer = Writer::of_pages(place, "Indexing", world);
        Ok(writer.update(&planned, &[])?.then_some(()))
    };
    until_published(attempt, place, world)
}

fn page(top: &str, listed: &[(String, Object)]) -> Result<String> {
    let (mut files, mut links) = (Vec::new(), String::new());
    for (path, object) in listed {
        let name = path.strip_prefix(top).unwrap_or(path);
        if !name.ends_with(".tar.gz") {
            continue;
        }
        let modified = object
            .modified
            .and_then(|it| it.duration_since(UNIX_EPOCH).ok());
        // Whole seconds, as in the listings of S3.
        let mtime = modified.unwrap_or_default().as_secs();
        files.push(ListedTarball { name, mtime });
        let (href, shown) = (percent_encode(name), escape(name));
        let _ = writeln!(links, "<li><a href=\"{href}\">{shown}</a></li>");
    }
    let files = serde_json::to_string(&files).context("failed to write JSON")?;
    // A name cannot end the script.
    let files = files.replace('<', "\\u003c");
    Ok(format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>Tarballs</title>\n</head>\n<body>\n\
         <ul>\n{links}</ul>\n<script>\nconst files = {files};\n</script>\n</body>\n</html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_page_has_the_list_that_programs_read_and_links() {
        let object = |name: &str| {
            let path = format!("tarball/{name}");
            let object = Object {
                key: path.parse().unwrap(),
                size: 1,
                sha256: None,
                checksum: None,
                content_type: None,
                etag: None,
                modified: Some(UNIX_EPOCH + Duration::from_millis(1_755_912_345_900)),
            };
            (path, object)
        };
        let listed = [
            object("a+1<b.tar.gz"),
            object("index.html"),
            object("b.tar.gz"),
        ];
        insta::assert_snapshot!(page("tarball/", &listed).unwrap(), @r#"
        <!DOCTYPE html>
        <html>
        <head>
        <meta charset="utf-8">
        <title>Tarballs</title>
        </head>
        <body>
        <ul>
        <li><a href="a%2B1%3Cb.tar.gz">a+1&lt;b.tar.gz</a></li>
        <li><a href="b.tar.gz">b.tar.gz</a></li>
        </ul>
        <script>
        const files = [{"name":"a+1\u003cb.tar.gz","mtime":1755912345},{"name":"b.tar.gz","mtime":1755912345}];
        </script>
        </body>
        </html>
        "#);
    }
}
