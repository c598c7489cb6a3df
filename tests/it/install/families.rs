//! A set with a directory for each family, and a framework for one of them.

use super::sandbox;
use crate::publish::packages::wheel;
use crate::support::published::VERSION;

#[test]
fn a_framework_is_taken_from_the_directory_that_has_it() {
    let t = sandbox();
    let families = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
    crate::python::legacy::write_run(&t.path("artifacts"), &families);
    t.run("build --artifact-dir artifacts --output-dir set").ok();
    let dist = [t.path("set/dist"), t.path("set")].into_iter().find(|it| it.is_dir()).unwrap();
    let torch = format!("2.13.0+rocm{VERSION}");
    wheel(&dist.join("gfx94X-dcgpu"), "torch", &torch, "");
    wheel(&dist, "triton", &format!("3.8.0+rocm{VERSION}"), "");
    t.run("index set --no-check").ok();
    let line = "install set --no-check --target gfx942 --emit uv --package torch --package triton";
    let block = t.run(line).ok();
    assert_has!(
        block,
        "torch = { index = \"rocm-2\" }",
        "triton = { index = \"rocm\" }",
        "rocm-sdk-core = { index = \"rocm\" }",
        "rocm = { index = \"rocm-2\" }"
    );
}
