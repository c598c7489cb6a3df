//! Real registries and buckets as sources, and every pip.

use std::{
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use super::{expected, install, packages, place, ran, registry};
use crate::support::web::{Server, Site};
use crate::{
    judges::tool,
    publish::readers::{PIPS, old_pip, old_python},
    s3,
    support::{
        long,
        place::{copy_files, text},
        program::{Outcome, succeed},
        published::{sample, sets_in_turn},
    },
};

/// `pypiserver`: an index of HTML, without sidecars.
pub(crate) struct PypiServer {
    child: Child,
    pub(crate) url: String,
}

impl PypiServer {
    pub(crate) fn start(packages: &Path) -> Self {
        let port = s3::server::free_ports()[0];
        let child = Command::new(tool("pypi-server"))
            .args([
                "run",
                "--interface",
                "127.0.0.1",
                "--port",
                &port.to_string(),
            ])
            .args(["--disable-fallback", "--server", "wsgiref"])
            .arg(packages)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
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

/// The wheels of the stand-in for the public registry, in one directory.
fn placeholders(place: &Path) -> std::path::PathBuf {
    registry(place);
    let flat = place.join("flat");
    fs_err::create_dir(&flat).unwrap();
    for project in fs_err::read_dir(place.join("registry/simple")).unwrap() {
        copy_files(&project.unwrap().path(), &flat);
    }
    fs_err::remove_file(flat.join("index.html")).unwrap();
    flat
}

#[test]
fn no_registry_supplies_the_packages_of_a_set() {
    let place = tempfile::tempdir().unwrap();
    let flat = placeholders(place.path());
    let registry = PypiServer::start(&flat);
    let set = sample();
    let index = Server::start(Site::Directory(set.place()));
    let (at, base) = (format!("{}simple/", index.url), registry.url.as_str());
    let target = ["--target", "gfx942"];
    for installer in ["uv", "pip"] {
        for orders in [
            ["--index-url", &at, base],
            ["--set", &index.url, base],
            ["--index-url", base, &at],
        ] {
            for pre in [false, true] {
                let environment = place.path().join(installer);
                let [from, source, deps] = orders;
                let mut command =
                    install(&[from, source, "--deps", deps, "--installer", installer]);
                command.args(target).arg("--venv").arg(&environment);
                if pre {
                    command.env("PIP_PRE", "1").env("UV_PRERELEASE", "allow");
                }
                let outcome = Outcome::of(command.output().unwrap());
                let what = format!("{installer} {orders:?} {pre}: {}", outcome.stderr);
                // The placeholder is a final version, and all others are not.
                if source == base {
                    assert_eq!(outcome.code, 1, "{what}");
                    assert!(outcome.stderr.contains("is a placeholder"), "{what}");
                    assert!(!environment.exists(), "{what}");
                } else {
                    assert_eq!(outcome.code, 0, "{what}");
                    assert_eq!(packages(&environment), expected(&["gfx942"]), "{what}");
                    fs_err::remove_dir_all(environment).unwrap();
                }
            }
        }
    }
    // The registry in the first place, and the set nowhere.
    let environment = place.path().join("other");
    let refused = ran(&[
        "--index-url",
        base,
        "--target",
        "none",
        "--venv",
        text(&environment),
    ]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("placeholder"), "{}", refused.stderr);
    assert!(!environment.exists());
    // One index with both.
    copy_files(&set.dist(), &flat);
    for installer in ["uv", "pip"] {
        let common = [
            &target[..],
            &[
                "--installer",
                installer,
                "--recreate",
                "--venv",
                text(&environment),
            ],
        ]
        .concat();
        ran(&[&["--index-url", base][..], &common].concat()).ok();
        assert_eq!(packages(&environment), expected(&["gfx942"]), "{installer}");
    }
}

#[test]
fn the_pip_of_an_existing_environment_installs_whichever_it_is() {
    let pips = if long::is_on() { &PIPS[..] } else { &PIPS[..1] };
    for (number, version) in pips.iter().enumerate() {
        for set in sets_in_turn(number) {
            let (_place, environment) = place();
            succeed(
                Command::new(old_python())
                    .args(["-m", "venv", "--without-pip"])
                    .arg(&environment),
            );
            let pip = old_pip(version);
            let mut own = Command::new(environment.join("bin/python"));
            own.arg(&pip)
                .args(["install", "--no-index", "--quiet"])
                .arg(pip.parent().unwrap());
            succeed(&mut own);
            let index = Server::start(Site::Directory(set.place()));
            let target = set.targets[0];
            let source = [
                "--set",
                &index.url,
                "--target",
                target,
                "--installer",
                "pip",
            ];
            ran(&[&source[..], &["--venv", text(&environment)]].concat()).ok();
            assert_eq!(
                packages(&environment),
                expected(&[target]),
                "{version} {}",
                set.name
            );
        }
    }
}

#[test]
fn a_public_bucket_installs_and_a_private_one_is_refused() {
    let server = s3::server::Server::shared();
    let bucket = server.bucket();
    let endpoint = s3::server::at(server.port).to_string();
    let keyed = |mut command: Command| {
        command
            .env("AWS_ACCESS_KEY_ID", s3::server::ID)
            .env("AWS_SECRET_ACCESS_KEY", s3::server::SECRET)
            .env("AWS_ENDPOINT_URL", &endpoint)
            .env("AWS_EC2_METADATA_DISABLED", "true");
        Outcome::of(command.output().unwrap())
    };
    let set = &sets_in_turn(0)[0];
    let dist = set.root().join("packages");
    let mut upload = crate::support::program::command();
    upload.args([
        "upload",
        "--multi-target",
        "--platform",
        "linux",
        "--run-id",
        "42",
    ]);
    upload.args(["--bucket", bucket.as_str(), "--packages-dir", text(&dist)]);
    keyed(upload).ok();
    let (place, environment) = place();
    let target = set.targets[0];
    let from = [
        "--run-id",
        "42",
        "--bucket",
        bucket.as_str(),
        "--target",
        target,
        "--venv",
        text(&environment),
    ];
    let refused = keyed(install(&from));
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(!environment.exists());
    // What the refusal says to do.
    let hint = refused.stderr.split("`rocwheel ").nth(1).unwrap();
    let copy = place.path().join("copy");
    let copying = hint.split('`').next().unwrap().replace("DIR", text(&copy));
    let mut command = crate::support::program::command();
    keyed({
        command.args(copying.split(' '));
        command
    })
    .ok();
    ran(&[
        "--set",
        text(&copy),
        "--target",
        target,
        "--venv",
        text(&environment),
    ])
    .ok();
    assert_eq!(packages(&environment), expected(&[target]));

    server.publish(&bucket);
    for installer in ["uv", "pip"] {
        let more = ["--installer", installer, "--recreate"];
        keyed(install(&[&from[..], &more].concat())).ok();
        assert_eq!(packages(&environment), expected(&[target]), "{installer}");
    }
}
