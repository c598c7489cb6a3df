//! Workflow artifacts: their names, and how packages in them are installed.

use super::*;

#[test]
fn a_name_means_nothing_to_a_shell() {
    for name in ["python-packages-linux", "a_b.c", "1"] {
        assert_eq!(name.parse::<WorkflowArtifactName>().unwrap().to_string(), name);
    }
    for name in ["", "-a", ".", "a b", "$(x)", "a/b", "é"] {
        assert!(name.parse::<WorkflowArtifactName>().is_err(), "{name}");
    }
    let refused = "a\"b".parse::<WorkflowArtifactName>().unwrap_err();
    insta::assert_snapshot!(refused, @r#"not a name of letters, digits, `-`, `_` and `.` that begins with a letter or digit: "a\"b""#);
}

#[test]
fn an_artifact_is_downloaded_from_its_run_or_from_the_one_that_is_picked() {
    let name: WorkflowArtifactName = "python-packages-linux".parse().unwrap();
    let run = ("ROCm/TheRock".parse().unwrap(), "42".parse().unwrap());
    let of = |run| WorkflowArtifact { name: name.clone(), run };
    let lines = [of(Some(run)).download(), of(None).download()];
    insta::assert_snapshot!(lines.join("\n"), @"
    gh run download 42 --repo ROCm/TheRock --name python-packages-linux --dir python-packages-linux
    gh run download --name python-packages-linux --dir python-packages-linux
    ");
}

#[test]
fn packages_that_are_kept_with_a_run_are_downloaded_from_it() {
    let set = samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"]);
    let artifact = WorkflowArtifact {
        name: "python-packages-linux".parse().unwrap(),
        run: Some(("ROCm/TheRock".parse().unwrap(), "42".parse().unwrap())),
    };
    let page = SummaryPage {
        set: &set,
        whereabouts: Whereabouts::Kept(&artifact),
        server: SERVER,
        report: None,
        changes: None,
    };
    let text = page.render(LIMIT);
    assert!(!text.contains("file://") && !text.contains("Find-links"), "{text}");
    insta::assert_snapshot!(&text[text.find("### Install").unwrap()..], @"
    ### Install

    The packages are not published. They are the artifact <code>python-packages-linux</code> of run [<code>42</code>](https://github.com/ROCm/TheRock/actions/runs/42). Download it, with GitHub's `gh` or from the page of the run, and install from there:

    ```sh
    gh run download 42 --repo ROCm/TheRock --name python-packages-linux --dir python-packages-linux
    ```

    For <b>gfx110X-all</b>:

    pip:

    ```sh
    pip install --no-index --find-links python-packages-linux --find-links python-packages-linux/gfx110X-all 'rocm==7.13.0.dev0+ab'
    ```

    uv:

    ```sh
    uv pip install --no-index --find-links python-packages-linux --find-links python-packages-linux/gfx110X-all 'rocm==7.13.0.dev0+ab'
    ```

    <details><summary>For gfx94X-dcgpu</summary>

    <details><summary><b>gfx94X-dcgpu</b></summary>

    pip:

    ```sh
    pip install --no-index --find-links python-packages-linux --find-links python-packages-linux/gfx94X-dcgpu 'rocm==7.13.0.dev0+ab'
    ```

    uv:

    ```sh
    uv pip install --no-index --find-links python-packages-linux --find-links python-packages-linux/gfx94X-dcgpu 'rocm==7.13.0.dev0+ab'
    ```

    </details>

    </details>
    ");
}
