//! A set with a directory for each family at a place whose pages another program wrote.

use super::remote::{keyed, stored};
use crate::s3::server::Server as S3;
use crate::support::{prelude::*, upstream_set::of_families};

fn page_of(directory: &Path, above: &str) -> String {
    let names = fs_err::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let files = names.filter(|entry| entry.path().is_file());
    let names = files.map(|entry| entry.file_name().into_string().unwrap());
    let links = names.map(|name| format!("<a href=\"{above}{name}\">{name}</a><br>\n"));
    links.collect::<Vec<_>>().concat()
}

#[test]
fn a_page_of_the_common_wheels_hides_no_family() {
    let t = Sandbox::new();
    let place = t.path("published");
    fs_err::create_dir_all(&place).unwrap();
    copy_tree(&of_families().join("dist/."), &place);
    let common = page_of(&place, "");
    let server = S3::shared();
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let check = |place: &Path| {
        let address = format!("s3://{}/1-linux/python", stored(server, place));
        let said = keyed(&["check", "--no-progress", &address, "--ignore", "RW126"], &endpoint);
        (said.code, said.stdout)
    };
    fs_err::write(place.join("index.html"), &common).unwrap();
    let without_pages = check(&place);
    assert_eq!(without_pages.0, 0, "{}", without_pages.1);
    let names = tree(&place);
    let families: BTreeSet<&str> =
        names.iter().filter_map(|path| path.split_once('/')).map(|it| it.0).collect();
    for name in families {
        let family = place.join(name);
        fs_err::write(family.join("index.html"), page_of(&family, "") + &page_of(&place, "../"))
            .unwrap();
    }
    let with_pages = check(&place);
    assert_eq!(with_pages.0, 0, "{}", with_pages.1);
    assert!(!(without_pages.1 + &with_pages.1).contains("RW205"));
    // A directory that has the common packages too is a set by itself, as of a run that keeps each family apart.
    let set = place.join("gfx120X-all");
    fs_err::create_dir_all(&set).unwrap();
    copy_files(&published::sample().dist(), &set);
    for path in tree(&place).iter().filter(|path| !path.contains('/') && path.ends_with(".whl")) {
        fs_err::copy(place.join(path), set.join(path)).unwrap();
    }
    let beside_a_set = check(&place);
    assert_eq!(beside_a_set.0, 0, "{}", beside_a_set.1);
}
