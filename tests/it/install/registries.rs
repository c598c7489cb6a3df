//! Real registries and buckets as sources, and every pip.

use std::{
    net::TcpStream,
    process::{Child, Stdio},
    thread::sleep,
};

use super::{assert_installed, built, install, registry, sandbox};
use crate::publish::readers::{PIPS, old_pip, old_python};
use crate::s3;
use crate::support::prelude::*;
use crate::support::published::sets_in_turn;

/// `pypiserver`: an index of HTML, without sidecars.
struct PypiServer {
    child: Child,
    url: String,
}

impl PypiServer {
    fn start(packages: &Path) -> Self {
        let port = s3::server::free_ports()[0];
        let line =
            format!("run --interface 127.0.0.1 --port {port} --disable-fallback --server wsgiref");
        let mut child = Command::new(tool("pypi-server"));
        child.args(line.split(' ')).arg(packages);
        child.stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().unwrap();
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            sleep(Duration::from_millis(50));
        }
        let url = format!("http://127.0.0.1:{port}/simple/");
        Self { child, url }
    }
}

impl Drop for PypiServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The registry is asked for other packages, or is itself the source, or has the set too.
#[test]
#[ignore = "slow"]
fn no_registry_supplies_the_packages_of_a_set() {
    let t = sandbox().with("PIP_PRE", "1").with("UV_PRERELEASE", "allow");
    registry(&t.path(""));
    let flat = t.path("placeholders");
    let base = PypiServer::start(&flat);
    let set = Server::start(Site::Directory(sample().place()));
    let (base, index) = (base.url.clone(), format!("{}simple/", set.url));
    let with = |installer: &str, from: &str, deps: &str| {
        let line = format!("install {from} --target gfx942 --installer {installer}");
        t.run(&format!("{line} --deps {deps}"))
    };
    let is_installed = || {
        assert_installed(&t.path(".venv"), &["gfx942"]);
        fs_err::remove_dir_all(t.path(".venv")).unwrap();
    };
    for installer in ["uv", "pip"] {
        for from in [&index, &set.url].into_iter().take(long::rounds(1, 2)) {
            with(installer, from, &base).ok();
            is_installed();
        }
        // The placeholder is a final version, and all others are not.
        for deps in [&index, "none"] {
            let said = with(installer, &base, deps).refused(1);
            assert_has!(said, "is a placeholder");
            assert!(!t.path(".venv").exists());
        }
    }
    copy_files(&sample().dist(), &flat);
    for installer in ["uv", "pip"] {
        with(installer, &base, "none").ok();
        is_installed();
    }
}

#[test]
#[ignore = "slow"]
fn the_pip_of_an_existing_environment_installs_whichever_it_is() {
    let pips = if long::is_on() { &PIPS[..] } else { &PIPS[..1] };
    for (number, version) in pips.iter().enumerate() {
        for set in sets_in_turn(number) {
            let t = sandbox();
            let mut venv = Command::new(old_python());
            venv.args(["-m", "venv", "--without-pip"]);
            succeed(venv.arg(t.path(".venv")));
            let pip = old_pip(version);
            let mut own = Command::new(t.path(".venv/bin/python"));
            own.arg(&pip).args(["install", "--no-index", "--quiet"]);
            succeed(own.arg(pip.parent().unwrap()));
            let index = Server::start(Site::Directory(set.place()));
            let more = format!("--target {} --installer pip", set.targets[0]);
            install(&t, index.url.as_ref(), &more).ok();
            assert_installed(&t.path(".venv"), &set.targets[..1]);
        }
    }
}

#[test]
#[ignore = "slow"]
fn a_public_bucket_installs_and_a_private_one_is_refused() {
    let server = s3::server::Server::shared();
    let bucket = server.bucket();
    let t = sandbox()
        .with("AWS_ACCESS_KEY_ID", s3::server::ID)
        .with("AWS_SECRET_ACCESS_KEY", s3::server::SECRET)
        .with("AWS_ENDPOINT_URL", s3::server::at(server.port).to_string())
        .with("AWS_EC2_METADATA_DISABLED", "true");
    let set = &sets_in_turn(0)[0];
    let (targets, target) = (&set.targets[..1], set.targets[0]);
    let run = format!("--run-id 42 --bucket {}", bucket.as_str());
    let upload = format!("upload {run} --multi-target --platform linux --packages-dir");
    t.run(&format!("{upload} {}", text(&built(set)))).ok();
    let said = t.run(&format!("install {run} --target {target}")).refused(2);
    assert!(!t.path(".venv").exists());
    // What the refusal says to do.
    let (_, hint) = said.split_once("`rocwheel ").unwrap();
    let (hint, _) = hint.split_once('`').unwrap();
    t.run(&hint.replace("DIR", "copy")).ok();
    t.run(&format!("install copy --target {target}")).ok();
    assert_installed(&t.path(".venv"), targets);

    server.publish(&bucket);
    for installer in ["uv", "pip"].into_iter().take(long::rounds(1, 2)) {
        let line = format!("install {run} --target {target} --installer {installer}");
        t.run(&format!("{line} --venv {installer}")).ok();
        assert_installed(&t.path(installer), targets);
    }
}
