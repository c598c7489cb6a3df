//! Jobs that publish at one place at the same time.

use std::thread;

use rocwheel_store::{Condition, Span, Store as _};

use super::{
    fault::{Fault, Proxy},
    key, read,
    server::Server,
    upload::{Desk, UPLOAD},
};
use crate::{
    publish::packages::{VERSION, wheel},
    support::prelude::*,
};

const PLACE: &str = "42-linux/python";

/// Puts the wheel of a project into a directory of its own, for one job.
fn project(desk: &Desk, name: &str) -> String {
    wheel(&desk.bench.root.join(name).join("dist"), name, "1.0", "");
    format!("{UPLOAD} {name} --no-check --no-directory-pages")
}

/// Each page and document of the place names each of these files.
fn lists(desk: &Desk, files: &[String]) {
    let store = Server::shared().store(&desk.bucket);
    for page in ["dist/index.html", "set.json", "SHA256SUMS"] {
        let page = format!("{PLACE}/{page}");
        let text = read(&store, &page, Span::Whole).unwrap();
        let text = String::from_utf8(text).unwrap();
        for file in files {
            assert!(text.contains(file), "`{file}` in `{page}`:\n{text}");
        }
    }
    for file in files {
        let project = file.split('-').next().unwrap().replace('_', "-");
        let page = format!("{PLACE}/simple/{project}/index.html");
        store.head(&key(&page)).unwrap();
    }
}

/// The pages of each name the packages of all, although none of them knows of the others.
#[test]
#[ignore = "slow"]
fn uploads_of_several_projects_at_once_are_all_listed() {
    let desk = Desk::new();
    let names = ["torch", "jax", "triton", "vllm"];
    let lines = names.map(|name| project(&desk, name));
    let index = format!("index s3://BUCKET/{PLACE} --no-check --no-directory-pages");
    for round in 0..3 {
        thread::scope(|scope| {
            let uploads: Vec<_> = lines.iter().map(|line| scope.spawn(|| desk.run(line))).collect();
            let index = scope.spawn(|| desk.run(&index));
            for upload in uploads {
                upload.join().unwrap().done();
            }
            index.join().unwrap();
        });
        let files = names.map(|name| format!("{name}-1.0-py3-none-any.whl"));
        lists(&desk, &files);
        if round < 2 {
            let store = Server::shared().store(&desk.bucket);
            for (object, _) in desk.there() {
                store.delete(&key(&object), &Condition::Always).unwrap();
            }
        }
    }
}

/// An upload whose page another job replaces right after it was written looks again.
#[test]
fn an_upload_whose_page_was_replaced_plans_again() {
    let mut desk = Desk::new();
    let (torch, jax) = (project(&desk, "torch"), project(&desk, "jax"));
    let proxy = Proxy::before(desk.port);
    let port = std::mem::replace(&mut desk.port, proxy.port);
    // The answer to the first writing of the page comes only after the other job is done.
    let page = "python/dist/index.html";
    proxy.breaks("PUT", page, 1, Fault::Late(Duration::from_secs(5)));
    let other = Desk { bench: crate::publish::Bench::new(), bucket: desk.bucket.clone(), port };
    let said = thread::scope(|scope| {
        let first = scope.spawn(|| desk.run(&torch));
        proxy.is_asked(page);
        // It lists a place that has a page and a package, and no `set.json`.
        thread::sleep(Duration::from_secs(1));
        fs_err::create_dir_all(other.bench.root.join("home")).unwrap();
        project(&other, "jax");
        other.run(&jax).done();
        first.join().unwrap()
    });
    let said = said.done().stderr;
    assert_has!(said, "another job published at the same place meanwhile: planning again");
    lists(&desk, &["torch", "jax"].map(|name| format!("{name}-1.0-py3-none-any.whl")));
}

/// The page of a project that comes back while an index removes its stale page.
#[test]
fn a_page_that_was_written_while_it_was_removed_is_written_again() {
    let mut desk = Desk::new();
    let jax = project(&desk, "jax");
    desk.upload("--no-directory-pages").done();
    desk.run(&jax).done();
    let name = "jax-1.0-py3-none-any.whl".to_owned();
    let store = Server::shared().store(&desk.bucket);
    store.delete(&key(&format!("{PLACE}/dist/{name}")), &Condition::Always).unwrap();
    let direct = desk.port;
    let proxy = Proxy::before(direct);
    proxy.breaks("DELETE", "simple/jax/", 1, Fault::Delayed(Duration::from_secs(5)));
    desk.port = proxy.port;
    let other =
        Desk { bench: crate::publish::Bench::new(), bucket: desk.bucket.clone(), port: direct };
    let line = format!("index s3://BUCKET/{PLACE} --no-check --no-directory-pages");
    thread::scope(|scope| {
        let index = scope.spawn(|| desk.run(&line));
        proxy.is_asked("DELETE");
        fs_err::create_dir_all(other.bench.root.join("home")).unwrap();
        project(&other, "jax");
        other.run(&jax).done();
        index.join().unwrap().done();
    });
    lists(&desk, &[name, format!("rocm_sdk_core-{VERSION}-py3-none-any.whl")]);
}
