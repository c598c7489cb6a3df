//! docs/action.md lists what action.yml takes and gives. That the inputs are flags is a unit test of the
//! command line.

use super::runner::read;
use crate::{publish::packages::wheel, support::prelude::*};

#[test]
fn the_page_lists_every_input_and_every_output() {
    let (action, page) = (read("action.yml"), read("docs/action.md"));
    let (inputs, rest) = action.split_once("\noutputs:\n").unwrap();
    let (_, inputs) = inputs.split_once("\ninputs:\n").unwrap();
    let (outputs, _) = rest.split_once("\nruns:\n").unwrap();
    let (page_outputs, page_inputs) = page.split_once("\n## Inputs\n").unwrap();
    for (declared, listed) in [(inputs, page_inputs), (outputs, page_outputs)] {
        let lines = declared.lines().filter(|line| !line.starts_with("   "));
        let names = lines.filter_map(|line| line.trim().split_once(':'));
        let names: Vec<&str> =
            names.map(|(name, _)| name).filter(|name| !name.starts_with('#')).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(listed.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}

/// Asserts that a later step can read all that a command wrote to `GITHUB_OUTPUT`. What `fetch` says about a run
/// is one document, which has the fields that have no output.
pub(crate) fn assert_declared(written: &str) {
    let action = read("action.yml");
    let names = written.lines().filter_map(|line| {
        let (name, delimiter) = line.split_once("<<")?;
        delimiter.starts_with("rocwheel_").then_some(name)
    });
    let names: Vec<&str> = names.collect();
    assert!(!names.is_empty(), "{written}");
    for name in names {
        let value = format!("  {name}: {{ description: ");
        let reads = format!("value: \"${{{{ steps.run.outputs.{name} }}}}\" }}");
        let mut lines = action.lines();
        let is_declared = lines.any(|line| line.starts_with(&value) && line.ends_with(&reads));
        assert!(is_declared || name.starts_with("run-"), "`{name}` is not in action.yml");
    }
}

#[test]
fn what_a_command_writes_a_later_step_can_read() {
    let t = Sandbox::new().with("GITHUB_OUTPUT", "outputs");
    wheel(&t.path("frameworks"), "torch", "2.12.0", "");
    for line in [
        "place --run-id 7 --offline --platform linux",
        "place --product core --release-type nightly",
        "targets gfx94X-dcgpu",
        "version --release-type nightly --base-version 7.14.0",
        "pipeline --sample --output-dir out",
        "upload frameworks --product pytorch --release-type nightly --no-check --output-dir bucket",
        "framework version frameworks",
        "framework version jaxlib-0.9.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl \
         jax_rocm7_plugin-0.9.0-py3-none-any.whl jax_rocm7_pjrt-0.9.0-py3-none-any.whl",
    ] {
        t.write("outputs", "");
        t.run(line).ok();
        assert_declared(&t.read("outputs"));
    }
}

/// What workflows of TheRock read after they published frameworks, and what people read.
#[test]
fn an_upload_of_frameworks_says_where_to_install_them_from() {
    let t = Sandbox::new().with("GITHUB_OUTPUT", "outputs").with("GITHUB_STEP_SUMMARY", "summary");
    wheel(&t.path("frameworks"), "torch", "2.12.0", "");
    wheel(&t.path("frameworks"), "torchaudio", "2.12.0", "");
    t.run(
        "upload frameworks --product pytorch --release-type nightly --no-check --output-dir bucket",
    )
    .ok();
    let index = format!("file://{}/rocm/pytorch/whl-next/", t.path("bucket").display());
    let outputs = t.read("outputs");
    assert_eq!(outputs.matches(&format!("\n{index}\n")).count(), 2, "{outputs}");
    assert_has!(outputs, "package_index_url<<");
    insta::assert_snapshot!(t.read("summary").replace(&index, "INDEX"), @"
    ## ROCm Python packages

    **not checked**

    - **Index**: <INDEX>

    ### Packages

    | Package | Size | |
    | :--- | ---: | :--- |
    | <code>torchaudio</code> | 849 B | ████████████ |
    | <code>torch</code> | 784 B | ███████████▏ |

    **0 packages and 2 of others, 1.59 KiB**

    <details><summary>SHA-256 of each package</summary>

    <pre>
    377bb8082c811dd2bfe1661d676d6324d8e7c6420d164179729120e509bdd9cb  torch-2.12.0-py3-none-any.whl
    b8732ee0c79fdd0facdc920bacdf943d3723d6226a886882c3609ce76ee3b810  torchaudio-2.12.0-py3-none-any.whl
    </pre>

    </details>

    ### Install

    pip:

    ```sh
    pip install --index-url INDEX 'torch==2.12.0' 'torchaudio==2.12.0'
    ```

    uv:

    ```sh
    uv pip install --default-index INDEX 'torch==2.12.0' 'torchaudio==2.12.0'
    ```

    These commands use no other index. If the packages need others that this index does not have, publish with `--base-index URL`, and the lines name that index too.
    ");
    // A line of pip names one index, so that with a second one only uv has a line.
    t.write("summary", "");
    t.run("upload frameworks --product pytorch --no-check --output-dir bucket --base-index https://base.example/x/").ok();
    let summary = t.read("summary").replace(&index, "INDEX");
    let lines = summary.lines().filter(|line| line.contains("install "));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"uv pip install --default-index https://base.example/x/ --index INDEX 'torch==2.12.0' 'torchaudio==2.12.0'");
    // The line is run.
    let line = format!("install --quiet --no-deps --target site --index-url {index} torch==2.12.0");
    let mut pip = std::process::Command::new(tool("pip"));
    succeed(pip.current_dir(t.path("")).args(line.split(' ')));
    assert!(t.path("site/torch/__init__.py").is_file());
}

#[test]
fn action_yml_fits_on_two_screens() {
    assert!(read("action.yml").lines().count() < 120);
}
