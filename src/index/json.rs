//! The simple index in JSON ([PEP 691](https://peps.python.org/pep-0691/)), with the sizes,
//! versions and upload times of [PEP 700](https://peps.python.org/pep-0700/).

use serde::Serialize;

use crate::{
    digest::Sha256,
    index::{IndexPage, IndexView, Layout, PageKind, REPOSITORY_VERSION, Rank, SetFile},
    location::percent_encode,
};

/// The directory of the JSON index, below `simple/` so that one prefix has both indexes. It cannot
/// be the name of a project: normalized names begin with a letter or a digit.
pub(super) const TREE: &str = "simple/_json";

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Meta {
    api_version: &'static str,
}

const META: Meta = Meta {
    api_version: REPOSITORY_VERSION,
};

#[derive(Serialize)]
struct JsonProject<'a> {
    meta: Meta,
    name: &'a str,
    versions: Vec<String>,
    files: Vec<JsonFile<'a>>,
}

#[derive(Serialize)]
struct Root<'a> {
    meta: Meta,
    projects: Vec<Name<'a>>,
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

#[derive(Clone, Copy, Serialize)]
struct Hashes {
    sha256: Sha256,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct JsonFile<'a> {
    filename: &'a str,
    url: String,
    hashes: Hashes,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    upload_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires_python: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core_metadata: Option<Hashes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dist_info_metadata: Option<Hashes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    yanked: Option<Yanked<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Yanked<'a> {
    For(&'a str),
    /// Yanked without a reason. An empty string would mean "not yanked" to installers written in
    /// Python, where it is false.
    Yes(bool),
}

/// `simple/_json/{project}/index.json`.
pub(super) fn project_page(
    view: &IndexView,
    project: &str,
    files: &[SetFile],
    layout: Layout,
) -> IndexPage {
    let directory = view.files_from(3, layout);
    let mut versions: Vec<String> = Vec::new();
    for same in files.chunk_by(|a, b| a.version == b.version) {
        let begin = versions.len();
        for version in same.iter().map(|file| file.version.to_string()) {
            // `1.0` and `1.0.0` are equal, so their files are mixed in this chunk. List each text
            // once.
            if !versions.iter().skip(begin).any(|known| *known == version) {
                versions.push(version);
            }
        }
    }
    let page_of = JsonProject {
        meta: META,
        name: project,
        versions,
        files: files.iter().map(|file| entry(file, &directory)).collect(),
    };
    let path = format!("{}{TREE}/{project}/index.json", view.top());
    page(path, Rank::Project, &page_of)
}

/// `simple/_json/index.json`.
pub(super) fn root_page(view: &IndexView) -> IndexPage {
    let projects = view.projects().map(|(name, _)| Name { name });
    let root = Root {
        meta: META,
        projects: projects.collect(),
    };
    let path = format!("{}{TREE}/index.json", view.top());
    page(path, Rank::Root, &root)
}

fn page(path: String, rank: Rank, value: &impl Serialize) -> IndexPage {
    IndexPage {
        path,
        kind: PageKind::SimpleJson,
        rank,
        body: serde_json::to_string_pretty(value).unwrap_or_default() + "\n",
    }
}

fn entry<'a>(file: &'a SetFile, directory: &str) -> JsonFile<'a> {
    let name = percent_encode(file.name.as_str());
    let metadata = file.metadata.map(|sidecar| Hashes {
        sha256: sidecar.sha256,
    });
    JsonFile {
        filename: file.name.as_str(),
        url: format!("{directory}{}{name}", file.directory()),
        hashes: Hashes {
            sha256: file.sha256,
        },
        size: file.size,
        upload_time: file.upload_time.as_ref().map(ToString::to_string),
        requires_python: file.requires_python.as_deref(),
        core_metadata: metadata,
        dist_info_metadata: metadata,
        yanked: file.yanked.as_deref().map(|reason| match reason {
            "" => Yanked::Yes(true),
            reason => Yanked::For(reason),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::index::{PackageSet, set::samples};

    #[test]
    fn a_project_page_says_what_the_html_page_says() {
        let set = samples::set();
        let view = &set.views()[0];
        let (project, files) = view.projects().nth(1).unwrap();
        let page = project_page(view, project, files, Layout::Dist);
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
        insta::assert_snapshot!(root_page(&samples::set().views()[0]).body, @r#"
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
        let view = &set.views()[0];
        let (project, files) = view.projects().next().unwrap();
        let page = project_page(view, project, files, Layout::Flat);
        let value: Value = serde_json::from_str(&page.body).unwrap();
        assert_eq!(value["versions"], json!(["1.0", "1.0.0", "1.0.1"]));
    }

    #[test]
    fn a_yank_without_a_reason_is_still_a_yank() {
        let mut file = samples::file("a-1.tar.gz", "a", "1");
        file.yanked = Some(String::new());
        let entry = serde_json::to_value(entry(&file, "")).unwrap();
        assert_eq!(entry["yanked"], true);
    }
}
