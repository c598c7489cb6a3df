//! Summaries that are cut, and what they show before a reader opens anything.

use super::*;

#[test]
fn a_long_table_is_cut_and_says_so() {
    let projects: Vec<String> = (0..9000).map(|number| format!("project-{number}")).collect();
    let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
    let set = samples::document_of(&[&["rocm"], projects.as_slice()].concat());
    let urls = samples::urls();
    let mut report = report();
    let row = report.findings[0].clone();
    for number in 0..100_000 {
        let mut row = row.clone();
        row.rule = crate::check::RULES[number % crate::check::RULES.len()];
        row.fact = number.to_string() + &"a fact".repeat(200);
        report.findings.push(row);
    }
    let page = SummaryPage { report: Some(&report), ..page(&set, &urls) };
    let text = page.render(LIMIT);
    assert!(text.len() <= LIMIT && text.len() > LIMIT - 2000, "{}", text.len());
    let rows = text.lines().filter(|line| line.starts_with("| [<code>"));
    let omitted = format!("\n{} rows left out here.", 9001 - rows.count());
    assert!(text.replace(',', "").contains(&omitted), "{omitted}");
    assert!(text.contains("left out: run `rocwheel check`"));
    assert_eq!(text.matches("<details").count(), text.matches("</details>").count());
    assert!(
        text.contains("[set.json](https://bucket.s3.amazonaws.com/1-linux/python/set.json)\n\n")
    );
}

/// The lines that a reader sees before opening anything, without those that only mark up.
fn visible(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut shown = Vec::new();
    for line in text.lines() {
        let (opened, closed) =
            (line.matches("<details").count(), line.matches("</details>").count());
        if depth == 0 && !line.is_empty() && !line.starts_with("| :") && !line.starts_with("```") {
            shown.push(line);
        }
        depth = depth + opened - closed;
    }
    shown
}

/// Two screens: GitHub shows about 27 rows of a table on a screen of 1080 pixels.
#[test]
fn a_bad_set_has_two_screens_before_a_reader_opens_anything() {
    let targets: Vec<String> = (0..26).map(|number| format!("gfx{}", 1000 + number)).collect();
    let devices = targets.iter().map(|it| format!("rocm-sdk-device-{it}"));
    let mut projects: Vec<String> = devices.collect();
    projects.extend(["rocm", "rocm-sdk-core", "rocm-sdk-libraries"].map(str::to_owned));
    let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
    let (set, urls) = (samples::document_of(&projects), samples::urls());
    let mut report = report();
    let finding = report.findings[0].clone();
    report.findings = (0..3000)
        .map(|number| {
            let mut finding = finding.clone();
            finding.rule = crate::check::RULES[number % crate::check::RULES.len()];
            finding.fact = "it needs glibc 2.34, where hosts have 2.28".repeat(1 + number % 2);
            finding
        })
        .collect();
    report.errors = 3000;
    report.coverage.targets = targets;
    let row = report.coverage.libraries["rocblas"].clone();
    let libraries = (0..60).map(|number| (format!("librocm{number}.so.1"), row.clone()));
    report.coverage.libraries = libraries.collect();
    let changes = compare_documents(("before", &samples::document()), ("after", &set));
    let pages = [Whereabouts::Nowhere, page(&set, &urls).whereabouts].map(|whereabouts| {
        let page = SummaryPage {
            whereabouts,
            report: Some(&report),
            changes: Some(&changes),
            ..page(&set, &urls)
        };
        page.render(LIMIT)
    });
    let shown = pages.map(|text| {
        assert!(!text.contains("<details open"), "{text}");
        visible(&text).len()
    });
    assert!(shown.iter().all(|count| *count <= 56), "{shown:?}");
    // What is closed has all of it.
    assert!(shown.iter().all(|count| *count > 20), "{shown:?}");
}

#[test]
fn missing_packages_leave_room_for_the_others() {
    let projects: Vec<String> = (0..9000).map(|it| format!("project-{it}")).collect();
    let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
    let (earlier, urls, set) =
        (samples::document_of(&projects), samples::urls(), samples::document());
    let changes = compare_documents(("before", &earlier), ("after", &set));
    let page = SummaryPage { changes: Some(&changes), ..page(&set, &urls) };
    let text = page.render(100_000);
    assert!(text.len() <= 100_000);
    let there = text.lines().filter(|line| line.starts_with("| [<code>"));
    assert_eq!(there.count(), 6);
    assert!(text.contains("🟥 **gone** |") && text.contains("rows left out here"));
}

#[test]
fn no_room_at_all_is_nothing_at_all() {
    let (set, urls, report) = (samples::document(), samples::urls(), report());
    let page = SummaryPage { report: Some(&report), ..page(&set, &urls) };
    for limit in 0..8000 {
        let text = page.render(limit);
        assert!(text.len() <= limit, "{} of {limit}", text.len());
    }
    assert_eq!(page.render(1000), "");
    assert_ne!(page.render(8000), "");
}
