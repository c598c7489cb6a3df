//! The aggregate index in a bucket, by several jobs at once.

use std::{sync::Mutex, thread};

use super::{
    fault::Proxy,
    prune::options,
    server::Server,
    upload::{Desk, KEYS},
};
use crate::{
    promote::{aggregate::manifest, prune::add},
    publish::tree,
    support::{
        long,
        place::text,
        program::{Outcome, rocwheel},
    },
};
use rocwheel::store::Store as _;

const NAMES: [&str; 4] = ["rocm", "rocm-profiler", "rocm-sdk-core", "rocm-sdk-devel"];

fn aggregate(desk: &Desk, flags: &[&str]) -> Outcome {
    let place = format!("s3://{}/v5", desk.bucket);
    let mut command = desk.command(&KEYS);
    command.args([
        "index",
        "aggregate",
        "--stream",
        "rc",
        "--static",
        "--manifest",
    ]);
    command.arg(desk.bench.path("ownership.yaml"));
    command.args([
        "--allow-unpublished",
        "--no-directory-pages",
        "--content",
        &place,
        &place,
    ]);
    desk.run(command.args(flags))
}

/// Each job publishes a project, and then writes the index of what it sees. If one that saw less could
/// write later, a project would be lost.
#[test]
fn of_several_jobs_none_loses_the_projects_of_another() {
    let desk = Desk::new();
    Server::shared().publish(&desk.bucket);
    let owned = NAMES.map(|it| (it, "core/whl-next"));
    fs_err::write(desk.bench.path("ownership.yaml"), manifest(&owned)).unwrap();
    let published = Mutex::new(String::new());
    thread::scope(|scope| {
        for name in NAMES {
            let (desk, published) = (&desk, &published);
            scope.spawn(move || {
                let file = format!("{}-1-py3-none-any.whl", name.replace('-', "_"));
                let page = format!("<a href={file}>{file}</a>").leak();
                desk.put(
                    &format!("v5/rocm/core/whl-next/{name}/index.html"),
                    page.as_bytes(),
                );
                let mut root = published.lock().unwrap();
                root.extend(["<a href=", name, "/>", name, "</a>"]);
                let text = root.clone().leak();
                desk.put("v5/rocm/core/whl-next/index.html", text.as_bytes());
                drop(root);
                aggregate(desk, &[]).ok();
            });
        }
    });
    let again = aggregate(&desk, &["--dry-run"]).ok();
    assert_eq!(again, "4 projects of rc, 0 changes\n");
    let there: Vec<String> = desk.there().into_iter().map(|(key, _)| key).collect();
    for name in NAMES {
        let page = format!("v5/rocm/whl-next/{name}/index.html");
        assert!(there.contains(&page), "{there:?}");
    }
}

/// Of 5,000 wheels, what did not change costs a listing; `index aggregate` also reads the page of each
/// project.
#[test]
fn many_wheels_cost_few_requests() {
    let (projects, versions) = long::rounds((4, 5), (25, 200));
    let desk = Desk::new();
    let store = Server::shared().store(&desk.bucket);
    let source = desk.bench.root.join("source");
    let names: Vec<String> = (0..projects).map(|it| format!("rocm-sdk-{it}")).collect();
    for name in &names {
        for version in 0..versions {
            add(&source, name, &format!("7.{version}.0"), "");
        }
    }
    rocwheel(&["index", "--layout", "product", text(&source)]).ok();
    let files = tree(&source);
    thread::scope(|scope| {
        for files in files.chunks(files.len().div_ceil(8)) {
            let (source, store) = (&source, &store);
            scope.spawn(move || {
                for path in files {
                    let bytes = fs_err::read(source.join(path)).unwrap();
                    let key = format!("v5/{path}").parse().unwrap();
                    store.put(&key, &bytes.as_slice(), &options()).unwrap();
                }
            });
        }
    });
    let owned: Vec<(&str, &str)> = names.iter().map(|it| (&**it, "core/whl-next")).collect();
    fs_err::write(desk.bench.path("ownership.yaml"), manifest(&owned)).unwrap();
    let proxy = Proxy::before(desk.port);
    let desk = Desk {
        port: proxy.port,
        ..desk
    };
    let index = || {
        let place = format!("s3://{}/v5", desk.bucket);
        let mut command = desk.command(&KEYS);
        command.args(["index", &place, "--layout", "product"]);
        desk.run(command.arg("--no-directory-pages"))
    };
    // Listings, and all other requests.
    let requests = |run: &dyn Fn() -> Outcome| {
        let counted = || (proxy.count("list-type=2"), proxy.count(""));
        let before = counted();
        run().ok();
        let after = counted();
        let lists = after.0 - before.0;
        (lists, after.1 - before.1 - lists)
    };
    let pages = files.len().div_ceil(1000);
    let first = requests(&index);
    let again = requests(&index);
    assert!(first.0 <= pages + 3, "{first:?}");
    assert!(again.0 <= pages + 3 && again.1 < 12, "{again:?}");
    let (first, again) = (
        requests(&|| aggregate(&desk, &[])),
        requests(&|| aggregate(&desk, &[])),
    );
    assert!(first.0 <= pages + 3, "{first:?}");
    assert!(
        again.0 <= pages + 3 && again.1 <= 2 * projects + 12,
        "{again:?}"
    );
}
