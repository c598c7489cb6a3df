//! Tests of whole summaries, and of summaries that are cut.

mod artifact;
mod limits;

use super::*;
use crate::{
    diff::compare_documents,
    index::{Urls, tests as samples},
};

const SERVER: &str = "https://github.com";

fn page<'a>(set: &'a SetJson, urls: &'a Urls) -> SummaryPage<'a> {
    SummaryPage {
        set,
        whereabouts: Whereabouts::Published(Places { set: urls, base: None }),
        server: SERVER,
        report: None,
        changes: None,
    }
}

fn report() -> Report {
    let row = |id: &str, name: &str, severity: &str, file: &str, fact: &str| {
        serde_json::json!({
            "id": id, "name": name, "severity": severity, "file": file,
            "member": null, "fact": fact, "way-out": "build it again, with `--targets`"
        })
    };
    let cell = |bytes: u64| serde_json::json!({ "files": 1, "bytes": bytes });
    let text = serde_json::json!({
        "schema": "rocwheel-check-v1",
        "packages": 6,
        "errors": 1,
        "warnings": 1,
        "findings": [
            row("RW303", "uncovered-library", "warning", "a_gfx1100.whl", "`rccl` has none"),
            row("RW202", "missing-device-wheel", "error", "rocm.tar.gz", "it promises `x|y`"),
        ],
        "coverage": {
            "targets": ["gfx1100", "gfx942"],
            "libraries": {
                "librccl.so.1.0": { "gfx942": cell(32 << 10) },
                "rocblas": { "gfx1100": cell(5 << 20), "gfx942": cell(612 << 20) }
            }
        }
    });
    Report::parse(&text.to_string()).unwrap()
}

#[test]
fn findings_that_were_only_counted_are_in_the_totals() {
    let row = |fact: &str, counted: usize| {
        serde_json::json!({
            "id": "RW107", "file": "a.whl", "member": "a/0", "fact": fact, "counted": counted
        })
    };
    let text = serde_json::json!({
        "schema": "rocwheel-check-v1", "packages": 1, "errors": 100_000, "warnings": 0,
        "findings": [row("it has no row", 1), row("99999 more findings of this rule", 99_999)],
    });
    let mut report = Report::parse(&text.to_string()).unwrap();
    report.findings[0].counted = None;
    let (set, urls) = (samples::document(), samples::urls());
    let page = SummaryPage { report: Some(&report), ..page(&set, &urls) };
    let shown = page.render(LIMIT);
    let lines = shown.lines().filter(|line| line.contains("RW107") || line.contains("a.whl"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    - ❌ <b>RW107</b> record-disagrees: it has no row (<code>a.whl</code>: <code>a&#47;0</code>, and 99,999 more)
    | ❌ | <b>RW107</b> record-disagrees | 100,000 | build the wheel again&#58; it was changed after its RECORD was written |
    <details><summary>❌ <b>RW107</b> record-disagrees: 100,000</summary>
    | it has no row | <code>a.whl</code>: <code>a&#47;0</code> |
    | 99999 more findings of this rule | <code>a.whl</code>: <code>a&#47;0</code> |
    ");
}

#[test]
fn a_summary_says_what_it_is_how_to_install_it_and_what_is_in_it() {
    let (set, urls) = (samples::document(), samples::urls());
    insta::assert_snapshot!(page(&set, &urls).render(LIMIT), @r#"
    ## ROCm Python packages <code>7.13.0.dev0+ab</code> for Linux

    **not checked**

    - **Run**: [<code>21440027240</code>](https://github.com/ROCm/TheRock/actions/runs/21440027240) of <code>ROCm&#47;TheRock</code>
    - **Commit**: [<code>89553ce3746eda74ade42557470d25e37c91b6f0</code>](https://github.com/ROCm/TheRock/commit/89553ce3746eda74ade42557470d25e37c91b6f0)
    - **Targets**: <code>gfx942</code> <code>gfx1100</code>
    - **Index**: <https://bucket.s3.amazonaws.com/1-linux/python/simple/>
    - **Find-links**: <https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html>

    ### Packages

    | Package | Size | |
    | :--- | ---: | :--- |
    | [<code>rocm</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ |
    | [<code>rocm-sdk-core</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_core-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ |
    | [<code>rocm-sdk-devel</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_devel-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ |
    | [<code>rocm-sdk-device-gfx1100</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_device_gfx1100-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ |
    | [<code>rocm-sdk-device-gfx942</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_device_gfx942-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ |
    | [<code>rocm-sdk-libraries</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_libraries-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ |

    **6 packages, 7.06 MiB**. [SHA256SUMS](https://bucket.s3.amazonaws.com/1-linux/python/SHA256SUMS), [set.json](https://bucket.s3.amazonaws.com/1-linux/python/set.json)

    <details><summary>SHA-256 of each package</summary>

    <pre>
    4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24  rocm-7.13.0.dev0+ab.tar.gz
    b4f104c33b0531684f20769dd3cfbe6fbe36ddfbe2c16ef81b2154906708e0a1  rocm&#95;sdk&#95;core-7.13.0.dev0+ab.tar.gz
    0f872144808fed8f9bdc64a8db3f0487522d76c9306a315d72a5ac67110edda3  rocm&#95;sdk&#95;devel-7.13.0.dev0+ab.tar.gz
    2d01689b386ba4db8df5110ce9c1c8f14f7e014668fceb2b340a35a32756c5ea  rocm&#95;sdk&#95;device&#95;gfx1100-7.13.0.dev0+ab.tar.gz
    c817a8b7c5800e688fbc9730f2ea013c6787e1878f3008cce3d8038e259157f4  rocm&#95;sdk&#95;device&#95;gfx942-7.13.0.dev0+ab.tar.gz
    8a2b5cb25e25025509a2cbe229c016a501023beebeb4fe654a6a29c3cc713d5a  rocm&#95;sdk&#95;libraries-7.13.0.dev0+ab.tar.gz
    </pre>

    </details>

    ### Install

    With `rocwheel`, which finds your GPU:

    ```sh
    rocwheel install https://bucket.s3.amazonaws.com/1-linux/python/
    ```

    For <b>gfx942</b>, MI300A&#47;MI300X CDNA:

    pip:

    ```sh
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    ```

    uv:

    ```sh
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    ```

    <details><summary>Other ways</summary>

    pip, from the find-links page:

    ```sh
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    ```

    uv, from the find-links page:

    ```sh
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    ```

    </details>

    <details><summary>For gfx1100</summary>

    <details><summary><b>gfx1100</b>, AMD RX 7900 XTX</summary>

    pip:

    ```sh
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ```

    uv:

    ```sh
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ```

    <details><summary>Other ways</summary>

    pip, from the find-links page:

    ```sh
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ```

    uv, from the find-links page:

    ```sh
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ```

    </details>

    </details>

    </details>
    "#);
}

#[test]
fn each_family_has_its_install_line() {
    let urls = samples::urls();
    let set = samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"]);
    let text = page(&set, &urls).installation();
    let shown: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("For ") || line.starts_with("<details"))
        .chain(text.lines().filter(|line| line.starts_with("pip install --index")))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    For <b>gfx110X-all</b>:
    <details><summary>Other ways</summary>
    <details><summary>For gfx94X-dcgpu</summary>
    <details><summary><b>gfx94X-dcgpu</b></summary>
    <details><summary>Other ways</summary>
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/ 'rocm==7.13.0.dev0+ab'
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/ 'rocm==7.13.0.dev0+ab'
    ");
}

#[test]
fn names_beyond_all_measure_leave_the_packages_their_room() {
    let long = format!("7.13.0+{}", "a".repeat(LIMIT));
    let mut set = samples::document();
    for file in &mut set.files {
        file.version = long.parse().unwrap();
    }
    let urls = samples::urls();
    let text = page(&set, &urls).render(LIMIT);
    assert!(text.len() < 20_000, "{}", text.len());
    assert!(text.contains("### Packages") && !text.contains("### Install"));
}

#[test]
fn the_page_says_what_the_set_leaves_out() {
    let (mut set, urls) = (samples::document(), samples::urls());
    set.identity.without = vec!["rpp".to_owned(), "a|b".to_owned()];
    let head = page(&set, &urls).head();
    let line = head.lines().find(|line| line.contains("Left out"));
    insta::assert_snapshot!(line.unwrap(), @"- **Left out on purpose**: <code>rpp</code> <code>a&#124;b</code>");
}

#[test]
fn nothing_known_is_nothing_said() {
    let (set, urls) = (samples::document_of(&["torch"]), samples::urls());
    insta::assert_snapshot!(page(&set, &urls).head(), @"
    ## ROCm Python packages

    **not checked**

    - **Index**: <https://bucket.s3.amazonaws.com/1-linux/python/simple/>
    - **Find-links**: <https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html>
    ");
}

#[test]
fn findings_coverage_and_changes_have_their_tables() {
    let (mut earlier, urls) = (samples::document(), samples::urls());
    for file in earlier.files.iter_mut().skip(1) {
        file.size = 1_000_000;
        file.sha256 = rocwheel_base::digest::Sha256::of(b"");
    }
    let set = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-new"]);
    let report = report();
    let changes = compare_documents(("before", &earlier), ("after", &set));
    let page = SummaryPage { report: Some(&report), changes: Some(&changes), ..page(&set, &urls) };
    let text = page.render(LIMIT);
    insta::assert_snapshot!(text, @"
    ## ROCm Python packages <code>7.13.0.dev0+ab</code>

    ❌ **check: 1 error, 1 warning**

    - ❌ <b>RW202</b> missing-device-wheel: it promises <code>x&#124;y</code> (<code>rocm.tar.gz</code>)
    - ❌ <b>RW303</b> uncovered-library: <code>rccl</code> has none (<code>a&#95;gfx1100.whl</code>)

    - **Index**: <https://bucket.s3.amazonaws.com/1-linux/python/simple/>
    - **Find-links**: <https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html>

    ### Packages

    | Package | Size | | Change |
    | :--- | ---: | :--- | :--- |
    | [<code>rocm-sdk-new</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_new-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ | 🟩 **new** |
    | <del><code>rocm-sdk-devel</code></del> | 976.56 KiB |  | 🟥 **gone** |
    | <del><code>rocm-sdk-device-gfx1100</code></del> | 976.56 KiB |  | 🟥 **gone** |
    | <del><code>rocm-sdk-device-gfx942</code></del> | 976.56 KiB |  | 🟥 **gone** |
    | <del><code>rocm-sdk-libraries</code></del> | 976.56 KiB |  | 🟥 **gone** |
    | [<code>rocm-sdk-core</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_core-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ | 🔺 +229.07 KiB (+23.5 %) |
    | [<code>rocm</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm-7.13.0.dev0%2Bab.tar.gz) | 1.18 MiB | ████████████ | unchanged |

    **3 packages, 3.53 MiB**; before: 5.95 MiB in <code>7.13.0.dev0+ab</code>, 🔻 −2.41 MiB (−40.6 %). [SHA256SUMS](https://bucket.s3.amazonaws.com/1-linux/python/SHA256SUMS), [set.json](https://bucket.s3.amazonaws.com/1-linux/python/set.json)

    <details><summary>SHA-256 of each package</summary>

    <pre>
    4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24  rocm-7.13.0.dev0+ab.tar.gz
    b4f104c33b0531684f20769dd3cfbe6fbe36ddfbe2c16ef81b2154906708e0a1  rocm&#95;sdk&#95;core-7.13.0.dev0+ab.tar.gz
    87c63143ae16d291927597b4ed6fa46349bda25f810d3c3a3fa9fe9c565a1c2d  rocm&#95;sdk&#95;new-7.13.0.dev0+ab.tar.gz
    </pre>

    </details>

    ### Findings

    | | Rule | Findings | Fix |
    | :--- | :--- | ---: | :--- |
    | ❌ | <b>RW202</b> missing-device-wheel | 1 | build the device package of the target, or build <code>rocm</code> without the target |
    | ❌ | <b>RW303</b> uncovered-library | 1 | fetch the artifact with the code, build the library for the target, or accept the finding with a reason |

    <details><summary>The findings, by rule</summary>

    <details><summary>❌ <b>RW202</b> missing-device-wheel: 1</summary>

    | What | Where |
    | :--- | :--- |
    | it promises <code>x&#124;y</code> | <code>rocm.tar.gz</code> |

    </details>

    <details><summary>❌ <b>RW303</b> uncovered-library: 1</summary>

    | What | Where |
    | :--- | :--- |
    | <code>rccl</code> has none | <code>a&#95;gfx1100.whl</code> |

    </details>

    </details>

    ### Device code

    1 of 2 libraries with code for every target.

    | Library | Code | No code for |
    | :--- | :--- | :--- |
    | <code>librccl.so.1.0</code> | 🟥🟩 | <code>gfx1100</code> |

    <details><summary>Size of the code by library and target</summary>

    | Library | gfx1100 | gfx942 |
    | :--- | ---: | ---: |
    | <code>librccl.so.1.0</code> | 🟥&nbsp;none | 32&nbsp;KiB |
    | <code>rocblas</code> | 5&nbsp;MiB | 612&nbsp;MiB |

    </details>
    ");
}

#[test]
fn gaps_are_shown_as_squares_however_many_targets_there_are() {
    let targets: Vec<String> = (0..9).map(|number| format!("gfx900{number}")).collect();
    let row = targets.iter().skip(2);
    let row = row.map(|target| (target.clone(), serde_json::json!({ "bytes": 1 << 20 })));
    let row: serde_json::Map<String, serde_json::Value> = row.collect();
    let coverage = serde_json::json!({ "targets": targets, "libraries": { "librccl.so": row } });
    let report = Report { coverage: serde_json::from_value(coverage).unwrap(), ..report() };
    insta::assert_snapshot!(super::render_coverage(&report, LIMIT), @"
    ### Device code

    0 of 1 library with code for every target.

    | Library | Code | No code for |
    | :--- | :--- | :--- |
    | <code>librccl.so</code> | 🟥🟥🟩🟩🟩🟩🟩🟩🟩 | <code>gfx9000</code> <code>gfx9001</code> |

    <details><summary>Size of the code by library and target</summary>

    | Library | gfx9000 | gfx9001 | gfx9002 | gfx9003 | gfx9004 | gfx9005 | gfx9006 | gfx9007 | gfx9008 |
    | :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | <code>librccl.so</code> | 🟥&nbsp;none | 🟥&nbsp;none | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB |

    </details>
    ");
}

#[test]
fn a_refused_set_has_findings_and_no_addresses() {
    let (set, report) = (samples::document(), report());
    let page = SummaryPage {
        set: &set,
        whereabouts: Whereabouts::Refused,
        server: SERVER,
        report: Some(&report),
        changes: None,
    };
    let text = page.render(LIMIT);
    assert!(text.contains("Nothing was published") && text.contains("RW202"));
    assert!(!text.contains("bucket") && !text.contains("### Install"), "{text}");
}

#[test]
fn a_set_with_errors_says_the_first_of_each_rule_and_not_how_to_install_it() {
    let (set, urls, report) = (samples::document(), samples::urls(), report());
    let page = SummaryPage { report: Some(&report), ..page(&set, &urls) };
    let text = page.render(LIMIT);
    let lines: Vec<&str> = text.lines().skip(2).take(3).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    ❌ **check: 1 error, 1 warning**

    - ❌ <b>RW202</b> missing-device-wheel: it promises <code>x&#124;y</code> (<code>rocm.tar.gz</code>)
    ");
    assert!(!text.contains("### Install") && !text.contains("pip install"), "{text}");
}

#[test]
fn a_set_that_was_not_checked_says_so() {
    let (set, urls) = (samples::document(), samples::urls());
    let text = page(&set, &urls).render(LIMIT);
    assert_eq!(text.lines().nth(2), Some("**not checked**"));
}
