//! The simple index in JSON: PEP 691 with PEP 700's sizes, versions and upload times.

use serde_json::{Map, Value, json};

use crate::{
    index::{Layout, PackageSet, Page, PageKind, REPOSITORY_VERSION, Rank, SetFile},
    location::percent_encode,
};

/// Below `simple/`, so that one prefix holds every index. No project can be called so: a
/// normalised name begins with a letter or a digit.
pub(super) const TREE: &str = "simple/_json";

/// `simple/_json/{project}/index.json`.
pub(super) fn project_page(project: &str, files: &[SetFile], layout: Layout) -> Page {
    let directory = format!("../../../{}", layout.files());
    let mut versions: Vec<String> = Vec::new();
    for version in files.iter().map(|file| file.version.to_string()) {
        // `1.0` and `1.0.0` are equal, so the same text can stand on both sides of another.
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    let files: Vec<Value> = files.iter().map(|file| entry(file, &directory)).collect();
    let value = json!({
        "meta": { "api-version": REPOSITORY_VERSION },
        "name": project,
        "versions": versions,
        "files": files,
    });
    page(
        format!("{TREE}/{project}/index.json"),
        Rank::Project,
        &value,
    )
}

/// `simple/_json/index.json`.
pub(super) fn root_page(set: &PackageSet) -> Page {
    let projects = set
        .projects()
        .map(|(project, _)| json!({ "name": project }));
    let value = json!({
        "meta": { "api-version": REPOSITORY_VERSION },
        "projects": projects.collect::<Vec<Value>>(),
    });
    page(format!("{TREE}/index.json"), Rank::Root, &value)
}

fn page(path: String, rank: Rank, value: &Value) -> Page {
    Page {
        path,
        kind: PageKind::SimpleJson,
        rank,
        body: format!("{value:#}\n"),
    }
}

fn entry(file: &SetFile, directory: &str) -> Value {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    put("filename", file.name.as_str().into());
    put(
        "url",
        format!("{directory}{}", percent_encode(file.name.as_str())).into(),
    );
    put("hashes", json!({ "sha256": file.sha256.to_string() }));
    put("size", file.size.into());
    if let Some(time) = &file.upload_time {
        put("upload-time", time.to_string().into());
    }
    if let Some(requires) = &file.requires_python {
        put("requires-python", requires.as_str().into());
    }
    if let Some(sidecar) = &file.metadata {
        let hashes = json!({ "sha256": sidecar.sha256().to_string() });
        put("core-metadata", hashes.clone());
        put("dist-info-metadata", hashes);
    }
    // An empty reason would read as "not yanked": JSON's empty string is false to Python.
    match file.yanked.as_deref() {
        None => {}
        Some("") => _ = put("yanked", true.into()),
        Some(reason) => _ = put("yanked", reason.into()),
    }
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::set::samples;

    #[test]
    fn a_project_page_says_what_the_html_page_says() {
        let set = samples::set();
        let (project, files) = set.projects().nth(1).unwrap();
        let page = project_page(project, files, Layout::Dist);
        assert_eq!(page.path, "simple/_json/rocm-sdk-core/index.json");
        insta::assert_snapshot!(page.body, @r#"
        {
          "meta": {
            "api-version": "1.1"
          },
          "name": "rocm-sdk-core",
          "versions": [
            "7.9.0",
            "7.13.0.dev0+ab"
          ],
          "files": [
            {
              "filename": "rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
              "url": "../../../dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
              "hashes": {
                "sha256": "cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808"
              },
              "size": 12,
              "upload-time": "2026-03-01T12:00:05.250000Z",
              "requires-python": ">=3.8,<4",
              "yanked": "broken \"launcher\" & more"
            },
            {
              "filename": "rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl",
              "url": "../../../dist/rocm_sdk_core-7.13.0.dev0%2Bab-py3-none-linux_x86_64.whl",
              "hashes": {
                "sha256": "e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb"
              },
              "size": 1234567,
              "core-metadata": {
                "sha256": "9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae"
              },
              "dist-info-metadata": {
                "sha256": "9b38c883745f422282edb55105a77c628a65790c7aa1afbb7165001bb76af2ae"
              }
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_root_page_lists_projects() {
        insta::assert_snapshot!(root_page(&samples::set()).body, @r#"
        {
          "meta": {
            "api-version": "1.1"
          },
          "projects": [
            {
              "name": "rocm"
            },
            {
              "name": "rocm-sdk-core"
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_version_is_listed_once_in_each_spelling() {
        let names = [
            "a-1.0.0.tar.gz",
            "a-1.0-x.whl",
            "a-1.0.1.zip",
            "a-1.0-a.whl",
        ];
        let versions = ["1.0.0", "1.0", "1.0.1", "1.0"];
        let files = names.iter().zip(versions);
        let files = files.map(|(name, version)| samples::file(name, "a", version));
        let set = PackageSet::new(files.collect()).unwrap();
        let (project, files) = set.projects().next().unwrap();
        let page = project_page(project, files, Layout::Flat);
        let value: Value = serde_json::from_str(&page.body).unwrap();
        assert_eq!(value["versions"], json!(["1.0", "1.0.0", "1.0.1"]));
    }

    #[test]
    fn a_yank_without_a_reason_is_still_a_yank() {
        let mut file = samples::file("a-1.tar.gz", "a", "1");
        file.yanked = Some(String::new());
        assert_eq!(entry(&file, "")["yanked"], true);
    }
}
