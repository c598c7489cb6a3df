//! Tests of whole summaries, and of summaries that are cut.

mod artifact;

use super::*;
use crate::set::{Urls, tests as samples};

const SERVER: &str = "https://github.com";

fn page<'a>(set: &'a SetJson, urls: &'a Urls) -> SummaryPage<'a> {
    SummaryPage {
        set,
        whereabouts: Whereabouts::Published(Places {
            set: urls,
            base: None,
        }),
        server: SERVER,
        report: None,
        earlier: None,
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
fn a_summary_says_what_it_is_how_to_install_it_and_what_is_in_it() {
    let (set, urls) = (samples::document(), samples::urls());
    insta::assert_snapshot!(page(&set, &urls).render(LIMIT), @r#"
    ## ROCm Python packages <code>7.13.0.dev0+ab</code> for Linux

    - **Run**: [<code>21440027240</code>](https://github.com/ROCm/TheRock/actions/runs/21440027240) of <code>ROCm&#47;TheRock</code>
    - **Commit**: [<code>89553ce3746eda74ade42557470d25e37c91b6f0</code>](https://github.com/ROCm/TheRock/commit/89553ce3746eda74ade42557470d25e37c91b6f0)
    - **Targets**: <code>gfx942</code> <code>gfx1100</code>
    - **Index**: <https://bucket.s3.amazonaws.com/1-linux/python/simple/>
    - **Find-links**: <https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html>

    ### Install

    With `rocwheel`, which finds your GPU:

    ```sh
    rocwheel install --set https://bucket.s3.amazonaws.com/1-linux/python/
    ```

    <details open><summary><b>gfx942</b>: MI300A&#47;MI300X CDNA</summary>

    pip:

    ```sh
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    ```

    uv:

    ```sh
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    ```

    pip, from the find-links page:

    ```sh
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    ```

    uv, from the find-links page:

    ```sh
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    ```

    </details>

    <details><summary><b>gfx1100</b>: AMD RX 7900 XTX</summary>

    pip:

    ```sh
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ```

    uv:

    ```sh
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ```

    pip, from the find-links page:

    ```sh
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ```

    uv, from the find-links page:

    ```sh
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ```

    </details>

    <details><summary>In a uv project (<code>pyproject.toml</code>)</summary>

    ```toml
    [project]
    dependencies = ["rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab"]

    [tool.uv.sources]
    rocm = { index = "rocm-run" }

    [[tool.uv.index]]
    name = "rocm-run"
    url = "https://bucket.s3.amazonaws.com/1-linux/python/simple/"
    ```

    </details>

    ### Packages

    | Package | Size |
    | :--- | ---: |
    | [<code>rocm-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24</code></sub> | 1.18 MiB |
    | [<code>rocm&#95;sdk&#95;core-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_core-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>b4f104c33b0531684f20769dd3cfbe6fbe36ddfbe2c16ef81b2154906708e0a1</code></sub> | 1.18 MiB |
    | [<code>rocm&#95;sdk&#95;devel-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_devel-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>0f872144808fed8f9bdc64a8db3f0487522d76c9306a315d72a5ac67110edda3</code></sub> | 1.18 MiB |
    | [<code>rocm&#95;sdk&#95;device&#95;gfx1100-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_device_gfx1100-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>2d01689b386ba4db8df5110ce9c1c8f14f7e014668fceb2b340a35a32756c5ea</code></sub> | 1.18 MiB |
    | [<code>rocm&#95;sdk&#95;device&#95;gfx942-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_device_gfx942-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>c817a8b7c5800e688fbc9730f2ea013c6787e1878f3008cce3d8038e259157f4</code></sub> | 1.18 MiB |
    | [<code>rocm&#95;sdk&#95;libraries-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_libraries-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>8a2b5cb25e25025509a2cbe229c016a501023beebeb4fe654a6a29c3cc713d5a</code></sub> | 1.18 MiB |

    6 packages, 7.06 MiB. All of them: [SHA256SUMS](https://bucket.s3.amazonaws.com/1-linux/python/SHA256SUMS), [set.json](https://bucket.s3.amazonaws.com/1-linux/python/set.json).
    "#);
}

#[test]
fn each_family_is_told_how_to_install_it() {
    let urls = samples::urls();
    let set = samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"]);
    let text = page(&set, &urls).installation();
    let shown: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("<details") || line.starts_with("pip install --index"))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    <details open><summary><b>gfx110X-all</b></summary>
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/ 'rocm==7.13.0.dev0+ab'
    <details><summary><b>gfx94X-dcgpu</b></summary>
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/ 'rocm==7.13.0.dev0+ab'
    <details><summary>In a uv project (<code>pyproject.toml</code>)</summary>
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
fn what_a_set_goes_without_is_told() {
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

    - **Index**: <https://bucket.s3.amazonaws.com/1-linux/python/simple/>
    - **Find-links**: <https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html>
    ");
}

#[test]
fn findings_coverage_and_changes_have_their_tables() {
    let (mut earlier, urls) = (samples::document(), samples::urls());
    earlier.identity.version = "7.12.0".parse().ok();
    for file in earlier.files.iter_mut().skip(1) {
        file.size = 1_000_000;
        file.sha256 = crate::digest::Sha256::of(b"");
    }
    let set = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-new"]);
    let report = report();
    let page = SummaryPage {
        report: Some(&report),
        earlier: Some(&earlier),
        ..page(&set, &urls)
    };
    let text = page.render(LIMIT);
    let tables = &text[text.find("### Findings").unwrap()..];
    insta::assert_snapshot!(tables, @r#"
    ### Findings

    <details open><summary>❌ <b>RW202</b> missing-device-wheel: 1 error</summary>

    | Where | What |
    | :--- | :--- |
    | <code>rocm.tar.gz</code> | it promises <code>x&#124;y</code> |

    Fix: build the device package of the target, or build <code>rocm</code> without the target.

    </details>

    <details><summary>⚠️ <b>RW303</b> uncovered-library: 1 warning</summary>

    | Where | What |
    | :--- | :--- |
    | <code>a&#95;gfx1100.whl</code> | <code>rccl</code> has none |

    Fix: build the library for the target, or document that it does not support it.

    </details>

    ### Install

    With `rocwheel`, which finds your GPU:

    ```sh
    rocwheel install --set https://bucket.s3.amazonaws.com/1-linux/python/
    ```

    pip:

    ```sh
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm==7.13.0.dev0+ab'
    ```

    uv:

    ```sh
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm==7.13.0.dev0+ab'
    ```

    pip, from the find-links page:

    ```sh
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm==7.13.0.dev0+ab'
    ```

    uv, from the find-links page:

    ```sh
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm==7.13.0.dev0+ab'
    ```

    <details><summary>In a uv project (<code>pyproject.toml</code>)</summary>

    ```toml
    [project]
    dependencies = ["rocm==7.13.0.dev0+ab"]

    [tool.uv.sources]
    rocm = { index = "rocm-run" }

    [[tool.uv.index]]
    name = "rocm-run"
    url = "https://bucket.s3.amazonaws.com/1-linux/python/simple/"
    ```

    </details>

    ### Device code

    1 of 2 libraries with code for every target.

    | Library | gfx1100 | gfx942 |
    | :--- | ---: | ---: |
    | <code>librccl.so.1.0</code> | **none** | 32&nbsp;KiB |
    | <code>rocblas</code> | 5&nbsp;MiB | 612&nbsp;MiB |

    ### Packages

    | Package | Size | Change |
    | :--- | ---: | ---: |
    | <del><code>rocm&#95;sdk&#95;devel-7.13.0.dev0+ab.tar.gz</code></del> | 976.56 KiB | **gone** |
    | <del><code>rocm&#95;sdk&#95;device&#95;gfx1100-7.13.0.dev0+ab.tar.gz</code></del> | 976.56 KiB | **gone** |
    | <del><code>rocm&#95;sdk&#95;device&#95;gfx942-7.13.0.dev0+ab.tar.gz</code></del> | 976.56 KiB | **gone** |
    | <del><code>rocm&#95;sdk&#95;libraries-7.13.0.dev0+ab.tar.gz</code></del> | 976.56 KiB | **gone** |
    | [<code>rocm-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24</code></sub> | 1.18 MiB | same bytes |
    | [<code>rocm&#95;sdk&#95;core-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_core-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>b4f104c33b0531684f20769dd3cfbe6fbe36ddfbe2c16ef81b2154906708e0a1</code></sub> | 1.18 MiB | +229.07 KiB<br><sub>+23.5 %</sub> |
    | [<code>rocm&#95;sdk&#95;new-7.13.0.dev0+ab.tar.gz</code>](https://bucket.s3.amazonaws.com/1-linux/python/dist/rocm_sdk_new-7.13.0.dev0%2Bab.tar.gz)<br><sub>sha256 <code>87c63143ae16d291927597b4ed6fa46349bda25f810d3c3a3fa9fe9c565a1c2d</code></sub> | 1.18 MiB | **new** |

    3 packages, 3.53 MiB (before, <code>7.12.0</code>: 5.95 MiB, −40.6 %). All of them: [SHA256SUMS](https://bucket.s3.amazonaws.com/1-linux/python/SHA256SUMS), [set.json](https://bucket.s3.amazonaws.com/1-linux/python/set.json).
    "#);
    insta::assert_snapshot!(page.head(), @"
    ## ROCm Python packages <code>7.13.0.dev0+ab</code>

    ❌ **check: 1 error, 1 warning**

    - **Index**: <https://bucket.s3.amazonaws.com/1-linux/python/simple/>
    - **Find-links**: <https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html>
    ");
}

#[test]
fn a_table_of_many_targets_is_folded_below_its_gaps() {
    let targets: Vec<String> = (0..9).map(|number| format!("gfx900{number}")).collect();
    let row = targets.iter().skip(2);
    let row = row.map(|target| (target.clone(), serde_json::json!({ "bytes": 1 << 20 })));
    let row: serde_json::Map<String, serde_json::Value> = row.collect();
    let coverage = serde_json::json!({ "targets": targets, "libraries": { "librccl.so": row } });
    let report = Report {
        coverage: serde_json::from_value(coverage).unwrap(),
        ..report()
    };
    insta::assert_snapshot!(super::coverage(&report, LIMIT), @"
    ### Device code

    0 of 1 library with code for every target.

    | Library | No code for |
    | :--- | :--- |
    | <code>librccl.so</code> | <code>gfx9000</code> <code>gfx9001</code> |

    <details><summary>Library by target</summary>

    | Library | gfx9000 | gfx9001 | gfx9002 | gfx9003 | gfx9004 | gfx9005 | gfx9006 | gfx9007 | gfx9008 |
    | :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | <code>librccl.so</code> | **none** | **none** | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB | 1&nbsp;MiB |

    </details>
    ");
}

#[test]
fn a_refused_set_has_findings_and_no_addresses() {
    let (set, report) = (samples::document(), report());
    let page = SummaryPage {
        set: &set,
        whereabouts: Whereabouts::Nowhere,
        server: SERVER,
        report: Some(&report),
        earlier: None,
    };
    let text = page.render(LIMIT);
    assert!(text.contains("Nothing was published") && text.contains("RW202"));
    assert!(
        !text.contains("bucket") && !text.contains("### Install"),
        "{text}"
    );
}

#[test]
fn a_long_table_is_cut_and_says_so() {
    let projects: Vec<String> = (0..9000)
        .map(|number| format!("project-{number}"))
        .collect();
    let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
    let set = samples::document_of(&[&["rocm"], projects.as_slice()].concat());
    let urls = samples::urls();
    let mut report = report();
    let row = report.findings[0].clone();
    for number in 0..100_000 {
        let mut row = row.clone();
        row.rule = crate::check::RULES[number % crate::check::RULES.len()];
        row.fact = "a fact".repeat(200);
        report.findings.push(row);
    }
    let page = SummaryPage {
        report: Some(&report),
        ..page(&set, &urls)
    };
    let text = page.render(LIMIT);
    assert!(
        text.len() <= LIMIT && text.len() > LIMIT - 2000,
        "{}",
        text.len()
    );
    let rows = text.lines().filter(|line| line.starts_with("| [<code>"));
    let omitted = format!("; {} rows left out here", 9001 - rows.count());
    assert!(text.replace(',', "").contains(&omitted), "{omitted}");
    assert!(text.contains("left out: run `rocwheel check`"));
    assert_eq!(
        text.matches("<details").count(),
        text.matches("</details>").count()
    );
    assert!(
        text.ends_with("[set.json](https://bucket.s3.amazonaws.com/1-linux/python/set.json).\n\n")
    );
}

#[test]
fn what_is_gone_leaves_room_for_what_is_there() {
    let projects: Vec<String> = (0..9000).map(|it| format!("project-{it}")).collect();
    let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
    let (earlier, urls, set) = (
        samples::document_of(&projects),
        samples::urls(),
        samples::document(),
    );
    let page = SummaryPage {
        earlier: Some(&earlier),
        ..page(&set, &urls)
    };
    let text = page.render(100_000);
    assert!(text.len() <= 100_000);
    let there = text.lines().filter(|line| line.starts_with("| [<code>"));
    assert_eq!(there.count(), 6);
    assert!(text.contains("| **gone** |") && text.contains("rows left out here"));
}

#[test]
fn no_room_at_all_is_nothing_at_all() {
    let (set, urls, report) = (samples::document(), samples::urls(), report());
    let page = SummaryPage {
        report: Some(&report),
        ..page(&set, &urls)
    };
    for limit in 0..8000 {
        let text = page.render(limit);
        assert!(text.len() <= limit, "{} of {limit}", text.len());
    }
    assert_eq!(page.render(1000), "");
    assert_ne!(page.render(8000), "");
}
