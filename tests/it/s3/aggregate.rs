//! The aggregate index in a bucket, by several jobs at once.

use std::{sync::Mutex, thread};

use super::{
    server::Server,
    upload::{Desk, KEYS},
};
use crate::{promote::aggregate::manifest, support::program::Outcome};

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
