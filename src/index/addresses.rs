//! [`Addresses`]: the URLs of the indexes of a published set, as commands print them.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{index::Urls, run::ArtifactGroup};

/// The URLs of the index of the set, and of each family that has its own index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Addresses {
    index_url: String,
    find_links_url: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    families: BTreeMap<String, OfFamily>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct OfFamily {
    index_url: String,
    find_links_url: String,
}

impl Addresses {
    pub fn new(urls: &Urls, families: &[ArtifactGroup]) -> Self {
        let of_family = |family: &ArtifactGroup| {
            let urls = urls.of_family(family);
            let own = OfFamily {
                index_url: urls.index(),
                find_links_url: urls.find_links(),
            };
            (family.to_string(), own)
        };
        Self {
            index_url: urls.index(),
            find_links_url: urls.find_links(),
            families: families.iter().map(of_family).collect(),
        }
    }
}

/// Shows the index of the set, then one line for each family.
impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.index_url)?;
        for own in self.families.values() {
            write!(f, "\n{}", own.index_url)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_addresses_of_their_own() {
        let urls: Urls = "https://host.example/python".parse().unwrap();
        let family: ArtifactGroup = "gfx94X-dcgpu".parse().unwrap();
        let some = Addresses::new(&urls, &[family]);
        insta::assert_snapshot!(some, @"
        https://host.example/python/simple/
        https://host.example/python/gfx94X-dcgpu/simple/
        ");
        insta::assert_snapshot!(serde_json::to_string_pretty(&some).unwrap(), @r#"
        {
          "index-url": "https://host.example/python/simple/",
          "find-links-url": "https://host.example/python/index.html",
          "families": {
            "gfx94X-dcgpu": {
              "index-url": "https://host.example/python/gfx94X-dcgpu/simple/",
              "find-links-url": "https://host.example/python/gfx94X-dcgpu/index.html"
            }
          }
        }
        "#);
        let none = serde_json::to_value(Addresses::new(&urls, &[])).unwrap();
        assert_eq!(none.as_object().unwrap().len(), 2, "{none}");
    }
}
