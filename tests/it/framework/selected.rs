//! The sdist that selects a device wheel, and device wheels that follow their host wheel.

use std::{io::Write as _, process::Stdio, slice::from_ref};

use super::{
    Place, members, set,
    split::{listed, names, wheels_of},
    text,
    tied::promoted,
};
use crate::support::prelude::*;

#[test]
#[ignore = "slow"]
fn the_selector_takes_the_device_wheel_of_the_machine() {
    let place = Place::new();
    let parts = place.tied_and_split();
    let resolve = |target: &str| {
        let mut uv = Command::new(tool("uv"));
        uv.args(["pip", "compile", "--quiet", "--offline", "--no-index"]);
        uv.args(["--no-header", "--no-annotate", "--no-cache"]);
        uv.args(["--python", "python3", "-"]);
        for place in [&parts, &set()] {
            uv.arg("--find-links").arg(place);
        }
        uv.env("ROCM_SDK_TARGET_FAMILY", target);
        uv.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = uv.spawn().unwrap();
        let mut input = running.stdin.take().unwrap();
        input.write_all(b"fw[device]\n").unwrap();
        drop(input);
        let output = running.wait_with_output().unwrap();
        assert!(output.status.success());
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().filter(|it| it.contains("device"));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(resolve("gfx1100"), @"
    amd-fw-device==1.0
    amd-fw-device-gfx1100==1.0
    rocm-sdk-device-gfx1100==0.99.1.dev0
    ");
    insta::assert_snapshot!(resolve("gfx942"), @"
    amd-fw-device==1.0
    amd-fw-device-gfx942==1.0
    rocm-sdk-device-gfx942==0.99.1.dev0
    ");
}

#[test]
fn device_wheels_follow_their_host_wheel() {
    let place = Place::new();
    let parts = place.tied_and_split();
    let next = place.0.path("next");
    fs_err::create_dir(&next).unwrap();
    promoted(&next);
    let again = Place::new();
    let mut wheels = wheels_of(&parts);
    let flags = ["--version-suffix", "set"];
    let mut hosts = wheels.iter();
    let host = hosts.find(|it| !it.to_str().unwrap().contains("amd_"));
    let alone = again.tie(from_ref(host.unwrap()), &next, &flags);
    assert_eq!(alone.code, 1);
    assert_has!(alone.stderr, "(device-wheels)");
    // One target is not kept.
    wheels.retain(|it| !it.to_str().unwrap().contains("gfx90a"));
    again.tie(&wheels, &next, &flags).ok();
    let made = listed(&again.tied());
    let wheels = made.iter().filter(|it| it.extension().unwrap() == "whl");
    let shown = wheels.map(|it| {
        let metadata = text(&members(it), "/METADATA");
        let is_shown = |it: &&str| it.contains("Extra") || it.contains("Requires");
        let lines: Vec<&str> = metadata.lines().filter(is_shown).collect();
        let name = it.file_name().unwrap().to_str().unwrap();
        format!("{name}\n{}", lines.join("\n"))
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @r#"
    amd_fw_device_gfx1100-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    Requires-Dist: fw==1.0+rocm0.99.1
    Requires-Dist: rocm-sdk-device-gfx1100==0.99.1
    amd_fw_device_gfx942-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    Requires-Dist: fw==1.0+rocm0.99.1
    Requires-Dist: rocm-sdk-device-gfx942==0.99.1
    fw-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    Provides-Extra: device
    Provides-Extra: device-all
    Provides-Extra: device-gfx1100
    Provides-Extra: device-gfx942
    Requires-Dist: amd-fw-device-gfx1100==1.0+rocm0.99.1; extra == "device-all"
    Requires-Dist: amd-fw-device-gfx1100==1.0+rocm0.99.1; extra == "device-gfx1100"
    Requires-Dist: amd-fw-device-gfx942==1.0+rocm0.99.1; extra == "device-all"
    Requires-Dist: amd-fw-device-gfx942==1.0+rocm0.99.1; extra == "device-gfx942"
    Requires-Dist: amd-fw-device==1.0+rocm0.99.1; extra == "device"
    Requires-Dist: rocm[libraries]==0.99.*
    "#);
    insta::assert_snapshot!(names(&again.tied()).join("\n"), @"
    amd_fw_device-1.0+rocm0.99.1.tar.gz
    amd_fw_device_gfx1100-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    amd_fw_device_gfx942-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    fw-1.0+rocm0.99.1-py3-none-linux_x86_64.whl
    ");
    // To the same set and version, nothing changes.
    let third = Place::new();
    let mut wheels = made;
    wheels.retain(|it| it.extension().unwrap() == "whl");
    third.tie(&wheels, &next, &["--version-suffix", "set"]).ok();
    for wheel in &wheels {
        let twin = third.tied().join(wheel.file_name().unwrap());
        let [one, other] = [wheel, &twin].map(|it| fs_err::read(it).unwrap());
        assert!(one == other, "{wheel:?}");
    }
}
