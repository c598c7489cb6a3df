//! Kernel databases for a family of targets get a wheel of their own, which the device wheels of the
//! family require.

use super::{
    Place, members,
    split::{fat, listed, names, split, wheels_of},
    text,
    tied::promoted,
};
use crate::support::{demo::DemoWheel, published};

const IMAGES: [&str; 4] = [
    "amd-gfx942",
    "amd-gfx11xx",
    "amd-gfx11xx/flash",
    "amd-gfx120x",
];

/// A wheel of PyTorch with images of `AOTriton`.
fn wheel() -> DemoWheel {
    let mut wheel = DemoWheel::bare("torch");
    wheel.add("torch/__init__.py", "");
    let targets: &[&str] = &["gfx942", "gfx1100", "gfx1151"];
    wheel.add(
        "torch/lib/libtorch_hip.so",
        fat("libtorch_hip.so", 7, &[targets]),
    );
    for directory in IMAGES {
        let path = format!("torch/lib/aotriton.images/{directory}/a.aks2");
        wheel.add(&path, directory);
    }
    wheel
}

/// The names of the members of a wheel, and its requirements.
fn shown(wheel: &std::path::Path) -> String {
    let wheel = members(wheel);
    let paths = wheel.iter().map(|it| it.0.as_str());
    let files = paths.filter(|it| it.contains("aks2") || it.contains("kpack"));
    let metadata = text(&wheel, "/METADATA");
    let requires = metadata.lines().filter(|it| it.starts_with("Requires"));
    let lines: Vec<&str> = files.chain(requires).collect();
    lines.join("\n")
}

#[test]
fn images_of_a_family_are_in_its_wheel() {
    let place = Place::new();
    let at = |name: &str| place.0.path().join(name);
    let set = published::sample().dist();
    place.tie(&[place.write(&wheel())], &set, &[]).ok();
    let fat = place.only();
    let keep = split(std::slice::from_ref(&fat), &at("kept"), &[]).ok();
    assert!(!keep.contains("device_gfx11-"), "{keep}");
    let flags = ["--families", "packages", "--set", set.to_str().unwrap()];
    split(std::slice::from_ref(&fat), &at("parts"), &flags).ok();
    let made = wheels_of(&at("parts"));
    let all = made.iter().map(|it| {
        let name = it.file_name().unwrap().to_str().unwrap();
        format!("{name}\n{}", shown(it))
    });
    insta::assert_snapshot!(all.collect::<Vec<_>>().join("\n\n"), @r#"
    amd_torch_device_gfx11-1.0-py3-none-linux_x86_64.whl
    torch/lib/aotriton.images/amd-gfx11xx/a.aks2
    torch/lib/aotriton.images/amd-gfx11xx/flash/a.aks2
    Requires-Dist: torch==1.0

    amd_torch_device_gfx1100-1.0-py3-none-linux_x86_64.whl
    torch/.kpack/torch_gfx1100.kpack
    Requires-Dist: amd-torch-device-gfx11==1.0
    Requires-Dist: torch==1.0
    Requires-Dist: rocm-sdk-device-gfx1100==0.0.1.dev0

    amd_torch_device_gfx1151-1.0-py3-none-linux_x86_64.whl
    torch/.kpack/torch_gfx1151.kpack
    Requires-Dist: amd-torch-device-gfx11==1.0
    Requires-Dist: torch==1.0

    amd_torch_device_gfx942-1.0-py3-none-linux_x86_64.whl
    torch/.kpack/torch_gfx942.kpack
    torch/lib/aotriton.images/amd-gfx942/a.aks2
    Requires-Dist: torch==1.0
    Requires-Dist: rocm-sdk-device-gfx942==0.0.1.dev0

    torch-1.0-py3-none-linux_x86_64.whl
    torch/lib/aotriton.images/amd-gfx120x/a.aks2
    Requires-Dist: rocm[libraries]==0.0.1.dev0
    Requires-Dist: amd-torch-device-gfx1100==1.0; extra == "device-all"
    Requires-Dist: amd-torch-device-gfx1100==1.0; extra == "device-gfx1100"
    Requires-Dist: amd-torch-device-gfx1151==1.0; extra == "device-all"
    Requires-Dist: amd-torch-device-gfx1151==1.0; extra == "device-gfx1151"
    Requires-Dist: amd-torch-device-gfx11==1.0; extra == "device-all"
    Requires-Dist: amd-torch-device-gfx11==1.0; extra == "device-gfx1100"
    Requires-Dist: amd-torch-device-gfx11==1.0; extra == "device-gfx1151"
    Requires-Dist: amd-torch-device-gfx942==1.0; extra == "device-all"
    Requires-Dist: amd-torch-device-gfx942==1.0; extra == "device-gfx942"
    Requires-Dist: amd-torch-device==1.0; extra == "device"
    "#);

    // All parts together are the wheel that was split.
    let mut wheels = made.clone();
    wheels.sort_by_key(|it| {
        !it.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("torch-")
    });
    split(&wheels, &at("whole"), &["--merge"]).ok();
    let [whole, before] = [&listed(&at("whole"))[0], &fat].map(|it| members(it));
    let paths = |it: &crate::support::members::Members| -> Vec<String> {
        it.iter().map(|it| it.0.clone()).collect()
    };
    assert_eq!(paths(&before), paths(&whole));

    // The wheel of the family follows the host wheel to the final set, and is not forgotten.
    let next = at("next");
    fs_err::create_dir(&next).unwrap();
    promoted(&next);
    let suffix = ["--version-suffix", "set"];
    let without: Vec<_> = made
        .iter()
        .filter(|it| !it.to_str().unwrap().contains("_gfx11-"))
        .cloned()
        .collect();
    let refused = Place::new().tie(&without, &next, &suffix);
    assert!(
        refused.code == 1
            && refused
                .stderr
                .contains("`amd-torch-device-gfx11==1.0`, which is not in the group"),
        "{}",
        refused.stderr
    );
    let again = Place::new();
    again.tie(&made, &next, &suffix).ok();
    let names = names(&again.tied());
    assert!(
        names
            .contains(&"amd_torch_device_gfx11-1.0+rocm0.0.1-py3-none-linux_x86_64.whl".to_owned())
    );
    let device = again
        .tied()
        .join("amd_torch_device_gfx1100-1.0+rocm0.0.1-py3-none-linux_x86_64.whl");
    insta::assert_snapshot!(shown(&device), @"
    torch/.kpack/torch_gfx1100.kpack
    Requires-Dist: amd-torch-device-gfx11==1.0+rocm0.0.1
    Requires-Dist: rocm-sdk-device-gfx1100==0.0.1
    Requires-Dist: torch==1.0+rocm0.0.1
    ");
}
