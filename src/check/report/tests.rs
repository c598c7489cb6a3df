//! Reports as they are written and read, and their annotations.

use super::*;
use crate::check::{Coverage, RULES, rule};
use rocwheel_base::error::render;

#[test]
fn a_report_is_read_as_it_was_written_and_ordered_by_rule() {
    let rules = [
        rule::UNCOVERED_LIBRARY,
        rule::UNCOVERED_LIBRARY,
        rule::UNRESOLVED_REQUIREMENT,
        rule::UNREADABLE_PACKAGE,
        rule::UNREADABLE_PACKAGE,
    ];
    let findings = rules.map(|rule| Finding::new(rule, "f").in_file("a").at("b"));
    let mut report =
        Report::new(PackageCounts { ours: 7, others: 0 }, findings.to_vec(), Coverage::default());
    report.accepted.push(AcceptedFinding {
        finding: Finding::new(rule::RUNPATH, "f"),
        reason: "r".to_owned(),
    });
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(Report::parse(&text).unwrap(), report);
    let newer = text.replacen('{', r#"{"new":{},"#, 1);
    assert_eq!(Report::parse(&newer).unwrap(), report);
    let order = report.by_rule();
    let order: Vec<_> = order.iter().map(|(rule, all)| (rule.id, all.len())).collect();
    assert_eq!(order, [("RW101", 2), ("RW303", 2), ("RW201", 1)]);
    assert_eq!(report.to_string(), "5 errors, 1 accepted");
}

#[test]
fn anything_else_is_refused_in_words() {
    let newer = r#"{"schema":"rocwheel-check-v1","findings":[{"id":"RW999","fact":"f"}]}"#;
    let refused = ["", "{}", r#"{"schema":"rocwheel-plan-v1"}"#, newer]
        .map(|text| render(&Report::parse(text).unwrap_err()));
    insta::assert_snapshot!(refused.concat(), @r#"
    error: failed to read what `check` found
      caused by: EOF while parsing a value at line 1 column 0

    hint: write it with `rocwheel check --format json`
    error: failed to read what `check` found
      caused by: its schema is null

    hint: write it with `rocwheel check --format json`
    error: failed to read what `check` found
      caused by: its schema is "rocwheel-plan-v1"

    hint: write it with `rocwheel check --format json`
    error: failed to read what `check` found
      caused by: a rule that this version does not have: "RW999"

    hint: write it with `rocwheel check --format json`
    "#);
}

fn of(rules: usize) -> Vec<Annotation> {
    let findings = RULES.iter().take(rules);
    let findings = findings.flat_map(|rule| [Finding::new(rule, "one"), Finding::new(rule, "two")]);
    shown(findings.collect())
}

fn shown(findings: Vec<Finding>) -> Vec<Annotation> {
    annotations(&Report::new(PackageCounts { ours: 1, others: 0 }, findings, Coverage::default()))
}

#[test]
fn there_are_no_more_annotations_than_github_shows() {
    assert_eq!(of(1).len(), 1);
    assert_eq!(of(MOST_ANNOTATIONS).len(), MOST_ANNOTATIONS);
    assert_eq!(of(RULES.len()).len(), MOST_ANNOTATIONS);
}

#[test]
fn ten_annotations_are_made_at_most_the_gravest_and_most_frequent_first() {
    let each = RULES.iter().map(|rule| Finding::new(rule, "a fact"));
    let frequent = (0..3).map(|at| {
        let rule = RULES.iter().rfind(|it| it.severity == Severity::Error);
        Finding::new(rule.unwrap(), format!("fact {at}"))
    });
    let told = shown(each.chain(frequent).collect());
    assert_eq!(told.len(), 10);
    assert!(told.iter().all(|it| it.level == AnnotationLevel::Error));
    insta::assert_snapshot!(told[0], @"
    RWF17 not-for-set: a fact
    fact 0
    fact 1
    fact 2
    fix: build the wheel against this set, or check it with the set that it was built with
    ");
    let warnings = RULES.iter().filter(|it| it.severity == Severity::Warning);
    let warnings = warnings.map(|rule| Finding::new(rule, "a fact"));
    let gravest = RULES.iter().find(|it| it.severity == Severity::Error).unwrap();
    let mixed = warnings.chain([Finding::new(gravest, "a fact")]);
    let told = shown(mixed.collect());
    assert_eq!(told.len(), 10);
    let errors = told.iter().filter(|it| it.level == AnnotationLevel::Error);
    assert_eq!(errors.count(), 1);
    assert_eq!(told[0].title, gravest.to_string());
}

/// The rule with the most findings is first, also if most of them were only counted.
#[test]
fn findings_that_were_only_counted_count() {
    let counted = Finding { counted: Some(90), ..Finding::new(RULES[1], "90 more").in_file("a") };
    let of_first = (0..20).map(|at| Finding::new(RULES[0], format!("fact {at}")));
    let of_second = (0..10).map(|at| Finding::new(RULES[1], format!("fact {at}")));
    let told = shown(of_first.chain(of_second).chain([counted]).collect());
    assert_eq!(told[0].title, RULES[1].to_string());
    assert!(told[0].message.contains("and 95 more in the log"), "{}", told[0]);
}

#[test]
fn an_annotation_names_five_places_and_says_how_many_more() {
    let rule = RULES[0];
    let found = (0..7).map(|at| {
        let finding = Finding::new(rule, "100% of it,\nall: of it");
        finding.in_file(format!("a{at}::error::.whl")).at("x\r\n::add-mask::y")
    });
    insta::assert_snapshot!(shown(found.collect())[0], @"
    RW101 unreadable-package: a0::error::.whl: x��::add-mask::y: 100% of it,�all: of it
    a1::error::.whl: x��::add-mask::y: 100% of it,�all: of it
    a2::error::.whl: x��::add-mask::y: 100% of it,�all: of it
    a3::error::.whl: x��::add-mask::y: 100% of it,�all: of it
    a4::error::.whl: x��::add-mask::y: 100% of it,�all: of it
    and 2 more in the log
    fix: build or copy the file again
    ");
}
