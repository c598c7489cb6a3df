//! [`VariantDocument`]: what variant wheels mean ([PEP 825](https://peps.python.org/pep-0825/), [PEP
//! 850](https://peps.python.org/pep-0850/)), in a wheel (`variant.json`) and in an index
//! (`{name}-{version}-variants.json`).
//!
//! Installers refuse a version whose document has a key that they do not know. So this reader is as strict.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::name::VariantLabel;
use rocwheel_base::error::{Context as _, Result, ensure};

/// The document in the `.dist-info` directory of a variant wheel.
pub const VARIANT_JSON: &str = "variant.json";
/// The end of the name of the document in an index: `rocm-7.14.0-variants.json`.
pub const VARIANTS_JSON: &str = "-variants.json";

/// A version of the format.
struct VariantSchema {
    url: &'static str,
    /// Whether a document says who provides each namespace.
    has_providers: bool,
}

/// The known versions of the format, the newest last.
const SCHEMAS: [VariantSchema; 3] = [
    VariantSchema {
        url: "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json",
        has_providers: false,
    },
    // variantlib writes this address.
    VariantSchema { url: "https://variants-schema.wheelnext.dev/v0.2.0.json", has_providers: true },
    VariantSchema {
        url: "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        has_providers: true,
    },
];

/// The meaning of the labels of a project version, for example:
///
/// ```json
/// {
///   "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
///   "default-priorities": {"namespace": ["amd"]},
///   "providers": {"amd": {"requires": ["rocm-bootstrap>=0.3.0"]}},
///   "variants": {"gfx942": {"amd": {"gfx_arch": ["gfx942"]}}}
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VariantDocument {
    #[serde(rename = "$schema")]
    schema: String,
    default_priorities: DefaultPriorities,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    providers: BTreeMap<String, VariantProvider>,
    variants: BTreeMap<VariantLabel, Properties>,
}

/// The values of each feature of each namespace. A machine fits if it supports one value of each feature.
type Properties = BTreeMap<String, Features>;

/// Values by feature.
type Features = BTreeMap<String, Vec<String>>;

/// What counts first when several variants fit a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DefaultPriorities {
    namespace: Vec<String>,
}

/// Who says which properties of a namespace a machine supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct VariantProvider {
    /// The packages of a plugin.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    requires: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    plugin_api: Option<String>,
    /// The properties that every machine supports, the best value first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    static_properties: Features,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    feature_order: Vec<String>,
    /// A provider that installers have in them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    builtin: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    optional: bool,
}

impl VariantProvider {
    fn ensure_valid(&self) -> Result<()> {
        let ways =
            [!self.requires.is_empty(), !self.static_properties.is_empty(), self.builtin.is_some()];
        ensure!(
            ways.iter().filter(|it| **it).count() == 1,
            "exactly one of `requires`, `static-properties` and `builtin` expected"
        );
        ensure!(
            self.plugin_api.is_none() || !self.requires.is_empty(),
            "`plugin-api` without `requires`"
        );
        let ordered = self.feature_order.iter().sorted();
        ensure!(
            self.feature_order.is_empty() && self.static_properties.len() < 2
                || ordered.eq(self.static_properties.keys()),
            "`feature-order` does not name the features of `static-properties`"
        );
        for (feature, values) in &self.static_properties {
            ensure_name(feature)?;
            values.iter().try_for_each(|value| ensure_value(value))?;
        }
        Ok(())
    }
}

impl VariantDocument {
    /// Reads the document of an index.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let document: Self = serde_json::from_slice(text)?;
        document.ensure_valid()?;
        Ok(document)
    }

    /// Reads the document of a wheel with this label.
    pub fn of_wheel(text: &[u8], label: &VariantLabel) -> Result<Self> {
        let document = Self::parse(text)?;
        document.ensure_of_wheel(label)?;
        Ok(document)
    }

    /// Fails unless it is a valid document of a wheel with this label.
    pub fn ensure_of_wheel(&self, label: &VariantLabel) -> Result<()> {
        self.ensure_valid()?;
        let labels = self.variants.keys().map(|label| format!("`{label}`")).join(", ");
        ensure!(
            self.variants.keys().eq([label]),
            "the label of the wheel is `{label}`, and `variants` has {labels}"
        );
        Ok(())
    }

    /// The document of an index, from the documents of its wheels. `None` without any. Fails if they disagree.
    pub fn merge<'a>(documents: impl IntoIterator<Item = &'a Self>) -> Result<Option<Self>> {
        let mut documents = documents.into_iter();
        let Some(mut merged) = documents.next().cloned() else {
            return Ok(None);
        };
        for document in documents {
            merged.add(document)?;
        }
        Ok(Some(merged))
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        if schema_position(&self.schema) < schema_position(&other.schema) {
            self.schema.clone_from(&other.schema);
        }
        let mine = &mut self.default_priorities.namespace;
        let others = &other.default_priorities.namespace;
        ensure!(
            mine.starts_with(others) || others.starts_with(mine),
            "the namespaces are {mine:?} in one wheel and {others:?} in another: one list has to begin with \
             the other"
        );
        if mine.len() < others.len() {
            mine.clone_from(others);
        }
        for (namespace, provider) in &other.providers {
            let known = self.providers.entry(namespace.clone()).or_insert_with(|| provider.clone());
            ensure!(known == provider, "two wheels have different providers of `{namespace}`");
        }
        for (label, properties) in &other.variants {
            let known = self.variants.entry(label.clone()).or_insert_with(|| properties.clone());
            ensure!(known == properties, "two wheels have different properties for `{label}`");
        }
        Ok(())
    }

    /// The same text for the same document, on lines for people.
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Whether both mean the same, written in any version of the format.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let other = Self { schema: self.schema.clone(), ..other.clone() };
        *self == other
    }

    /// Whether every machine is said to support the properties of a namespace.
    pub fn is_static(&self, namespace: &str) -> bool {
        self.providers.get(namespace).is_some_and(|it| !it.static_properties.is_empty())
    }

    fn ensure_valid(&self) -> Result<()> {
        let schema = SCHEMAS
            .iter()
            .find(|schema| schema.url == self.schema)
            .with_context(|| format!("unknown `$schema`: {:?}", self.schema))?;
        let namespaces = &self.default_priorities.namespace;
        ensure!(!namespaces.is_empty(), "`default-priorities` has no namespace");
        ensure!(namespaces.iter().all_unique(), "a namespace twice in `default-priorities`");
        namespaces.iter().try_for_each(|namespace| ensure_name(namespace))?;
        if schema.has_providers {
            ensure!(
                namespaces.iter().sorted().eq(self.providers.keys()),
                "`providers` and `default-priorities` do not have the same namespaces"
            );
        } else {
            ensure!(self.providers.is_empty(), "`{}` has no `providers`", schema.url);
        }
        for (namespace, provider) in &self.providers {
            provider
                .ensure_valid()
                .with_context(|| format!("failed to read the provider of `{namespace}`"))?;
        }
        for (label, properties) in &self.variants {
            ensure_properties(label, properties, namespaces)
                .with_context(|| format!("failed to read the properties of `{label}`"))?;
        }
        Ok(())
    }
}

fn ensure_properties(
    label: &VariantLabel,
    properties: &Properties,
    namespaces: &[String],
) -> Result<()> {
    ensure!(
        label.is_null() == properties.is_empty(),
        "the label `null`, and no other one, stands for no properties"
    );
    for (namespace, features) in properties {
        ensure!(
            namespaces.contains(namespace),
            "`{namespace}` is not among the namespaces of `default-priorities`"
        );
        ensure!(!features.is_empty(), "`{namespace}` has no feature");
        for (feature, values) in features {
            ensure_name(feature)?;
            ensure!(!values.is_empty(), "`{feature}` has no value");
            values.iter().try_for_each(|value| ensure_value(value))?;
            ensure!(
                values.is_sorted_by(|one, next| one < next),
                "the values of `{feature}` are not sorted, or not unique: {values:?}"
            );
        }
    }
    Ok(())
}

/// The name of a namespace or a feature.
fn ensure_name(name: &str) -> Result<()> {
    ensure!(
        is_made_of(name, "_"),
        "a namespace or a feature has lower-case letters, digits and `_` only: {name:?}"
    );
    Ok(())
}

fn ensure_value(value: &str) -> Result<()> {
    ensure!(
        is_made_of(value, "_."),
        "a value has lower-case letters, digits, `_` and `.` only: {value:?}"
    );
    Ok(())
}

fn is_made_of(name: &str, further: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || further.contains(c);
    !name.is_empty() && name.chars().all(is_plain)
}

fn schema_position(url: &str) -> Option<usize> {
    SCHEMAS.iter().position(|it| it.url == url)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn document(label: &str, values: &[&str]) -> Value {
        json!({
            "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
            "default-priorities": {"namespace": ["amd"]},
            "providers": {"amd": {
                "plugin-api": "rocm_bootstrap.variant_provider:AMDVariantPlugin",
                "requires": ["rocm-bootstrap>=0.3.0"],
            }},
            "variants": {label: {"amd": {"gfx_arch": values}}},
        })
    }

    fn read(document: &Value) -> Result<VariantDocument> {
        VariantDocument::parse(document.to_string().as_bytes())
    }

    #[test]
    fn the_document_of_an_index_has_the_labels_of_all_wheels() {
        let gfx942 = read(&document("gfx942", &["gfx942"])).unwrap();
        let gfx1100 = read(&document("gfx1100", &["gfx1100"])).unwrap();
        let mut null = document("null", &[]);
        null["variants"] = json!({"null": {}});
        null["default-priorities"]["namespace"] = json!(["amd", "x86_64"]);
        null["providers"]["x86_64"] = json!({"builtin": "x86_64"});
        let null = read(&null).unwrap();
        let merged = VariantDocument::merge([&gfx942, &null, &gfx1100, &gfx942]).unwrap().unwrap();
        assert_eq!(
            VariantDocument::merge([&gfx1100, &null, &gfx942]).unwrap().as_ref(),
            Some(&merged)
        );
        assert_eq!(VariantDocument::merge([]).unwrap(), None);
        assert_eq!(VariantDocument::parse(merged.pretty().as_bytes()).unwrap(), merged);
        insta::assert_snapshot!(merged.pretty(), @r#"
        {
          "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
          "default-priorities": {
            "namespace": [
              "amd",
              "x86_64"
            ]
          },
          "providers": {
            "amd": {
              "requires": [
                "rocm-bootstrap>=0.3.0"
              ],
              "plugin-api": "rocm_bootstrap.variant_provider:AMDVariantPlugin"
            },
            "x86_64": {
              "builtin": "x86_64"
            }
          },
          "variants": {
            "gfx1100": {
              "amd": {
                "gfx_arch": [
                  "gfx1100"
                ]
              }
            },
            "gfx942": {
              "amd": {
                "gfx_arch": [
                  "gfx942"
                ]
              }
            },
            "null": {}
          }
        }
        "#);
    }

    #[test]
    fn wheels_that_disagree_are_refused_in_words() {
        let gfx942 = document("a", &["gfx942"]);
        let mut other_provider = gfx942.clone();
        other_provider["providers"]["amd"]["requires"] = json!(["rocm-bootstrap"]);
        let mut other_namespace = gfx942.clone();
        other_namespace["default-priorities"]["namespace"] = json!(["x86_64", "amd"]);
        other_namespace["providers"]["x86_64"] = json!({"builtin": "x86_64"});
        let refused = [document("a", &["gfx1100"]), other_provider, other_namespace];
        let messages = refused.iter().map(|other| {
            let documents = [read(&gfx942).unwrap(), read(other).unwrap()];
            VariantDocument::merge(&documents).unwrap_err().to_string()
        });
        insta::assert_snapshot!(messages.collect::<Vec<_>>().join("\n"), @r#"
        two wheels have different properties for `a`
        two wheels have different providers of `amd`
        the namespaces are ["amd"] in one wheel and ["x86_64", "amd"] in another: one list has to begin with the other
        "#);
    }

    #[test]
    fn a_document_that_installers_refuse_is_refused_in_words() {
        let refused: [fn(&mut Value); 17] = [
            |it| it["extra"] = json!(1),
            |it| it["default-priorities"]["property"] = json!({}),
            |it| it["providers"]["amd"]["install-time"] = json!(true),
            |it| it["$schema"] = json!("https://variants-schema.wheelnext.dev/v9.json"),
            |it| it["$schema"] = json!(SCHEMAS[0].url),
            |it| it["default-priorities"]["namespace"] = json!([]),
            |it| it["default-priorities"]["namespace"] = json!(["amd", "amd"]),
            |it| it["default-priorities"]["namespace"] = json!(["nvidia"]),
            |it| it["providers"]["amd"]["builtin"] = json!("amd"),
            |it| it["providers"]["amd"] = json!({"plugin-api": "a:b", "builtin": "amd"}),
            |it| it["providers"]["amd"] = json!({"static-properties": {"a": ["b"], "c": ["d"]}}),
            |it| it["variants"]["gfx942"] = json!({}),
            |it| it["variants"]["gfx942"]["amd"]["gfx_arch"] = json!(["gfx942", "gfx1100"]),
            |it| it["variants"]["gfx942"]["amd"]["gfx_arch"] = json!([]),
            |it| it["variants"]["gfx942"]["amd"]["gfx_arch"] = json!(["gfx942:xnack+"]),
            |it| it["variants"]["gfx942"]["nvidia"] = json!({"a": ["b"]}),
            |it| it["variants"]["GFX942"] = json!({"amd": {"gfx_arch": ["gfx942"]}}),
        ];
        let mut messages: Vec<String> = refused
            .iter()
            .map(|change| {
                let mut changed = document("gfx942", &["gfx942"]);
                change(&mut changed);
                format!("{:#}", read(&changed).unwrap_err())
            })
            .collect();
        let text = document("gfx942", &["gfx942"]).to_string();
        let other = VariantDocument::of_wheel(text.as_bytes(), &"amd".parse().unwrap());
        messages.push(format!("{:#}", other.unwrap_err()));
        insta::assert_snapshot!(messages.join("\n"), @r#"
        unknown field `extra`, expected one of `$schema`, `default-priorities`, `providers`, `variants` at line 1 column 299
        unknown field `property`, expected `namespace` at line 1 column 124
        unknown field `install-time`, expected one of `requires`, `plugin-api`, `static-properties`, `feature-order`, `builtin`, `optional` at line 1 column 250
        unknown `$schema`: "https://variants-schema.wheelnext.dev/v9.json"
        `https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json` has no `providers`
        `default-priorities` has no namespace
        a namespace twice in `default-priorities`
        `providers` and `default-priorities` do not have the same namespaces
        failed to read the provider of `amd`: exactly one of `requires`, `static-properties` and `builtin` expected
        failed to read the provider of `amd`: `plugin-api` without `requires`
        failed to read the provider of `amd`: `feature-order` does not name the features of `static-properties`
        failed to read the properties of `gfx942`: the label `null`, and no other one, stands for no properties
        failed to read the properties of `gfx942`: the values of `gfx_arch` are not sorted, or not unique: ["gfx942", "gfx1100"]
        failed to read the properties of `gfx942`: `gfx_arch` has no value
        failed to read the properties of `gfx942`: a value has lower-case letters, digits, `_` and `.` only: "gfx942:xnack+"
        failed to read the properties of `gfx942`: `nvidia` is not among the namespaces of `default-priorities`
        a variant label has lower-case letters, digits, `_` and `.` only: "GFX942" at line 1 column 299
        the label of the wheel is `amd`, and `variants` has `gfx942`
        "#);
    }
}
