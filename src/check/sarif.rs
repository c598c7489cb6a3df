//! Writes the findings as
//! [SARIF 2.1.0](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html), which GitHub's
//! code scanning and other viewers read.

use serde_json::{Value, json};

use crate::{
    check::{Finding, RULES, Report, Rule},
    digest::Sha256,
    location::percent_encode,
};

/// The document: every rule with its help, and a result for each finding.
pub fn sarif(report: &Report) -> Value {
    let rules: Vec<Value> = RULES.iter().map(|rule| descriptor(rule)).collect();
    let results: Vec<Value> = report.findings.iter().map(result).collect();
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "rocwheel",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "utf16CodeUnits",
            "results": results,
        }],
    })
}

fn descriptor(rule: &Rule) -> Value {
    let explanation = rule.explanation();
    json!({
        "id": rule.id,
        "name": rule.name,
        "shortDescription": { "text": sentence(&rule.name.replace('-', " ")) },
        "fullDescription": { "text": explanation },
        "help": { "text": explanation, "markdown": explanation },
        "defaultConfiguration": { "level": rule.severity },
    })
}

fn result(finding: &Finding) -> Value {
    let index = RULES.iter().position(|rule| rule.id == finding.rule.id);
    // A finding about the whole set has no file, but viewers drop results without a location.
    let file = finding.file.as_deref().unwrap_or("set.json");
    let uri: Vec<String> = file.split('/').map(percent_encode).collect();
    let mut location = json!({
        "physicalLocation": { "artifactLocation": { "uri": uri.join("/") } },
    });
    let mut text = sentence(&finding.fact);
    if let Some(member) = &finding.member {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": member, "kind": "member" }]);
        text = format!("`{member}`: {}.", finding.fact.trim_end_matches('.'));
    }
    json!({
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": finding.rule.severity,
        "message": { "text": format!("{text} Fix: {}.", finding.rule.way_out()) },
        "locations": [location],
        "partialFingerprints": { "rocwheel/v1": fingerprint(finding) },
    })
}

/// Identifies a problem across versions of a package, so that viewers do not report it as new.
fn fingerprint(finding: &Finding) -> String {
    let file = finding.file.as_deref().unwrap_or_default();
    let project = file.split('-').next().unwrap_or_default();
    let member = finding.member.as_deref().unwrap_or_default();
    let text = format!("{}\n{project}\n{member}", finding.rule.id);
    Sha256::of(text.as_bytes()).to_string()
}

fn sentence(fragment: &str) -> String {
    let mut chars = fragment.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), chars.as_str())
}
