//! What is escaped, and how sizes are drawn.

use super::*;

#[test]
fn a_hostile_name_stays_in_its_cell() {
    let hostile = "a|b`c</code>\n| x |\n```<script>[x](y)&amp;*_\u{202e}é.whl";
    insta::assert_snapshot!(code(hostile), @"<code>a&#124;b&#96;c&#60;&#47;code&#62;�&#124; x &#124;�&#96;&#96;&#96;&#60;script&#62;&#91;x&#93;&#40;y&#41;&#38;amp&#59;&#42;&#95;�é.whl</code>");
}

#[test]
fn what_a_message_marks_as_code_is_code() {
    insta::assert_snapshot!(message("`a|b` and ``, `<x>"), @"<code>a&#124;b</code> and , <code>&#60;x&#62;</code>");
    assert_eq!(plain(&"x".repeat(301)).len(), 300 + "…".len());
}

#[test]
fn a_bar_is_as_long_as_its_part() {
    let bars = [0, 1, 50, 99, 100, 1000].map(|value| format!("{value}: {}", bar(value, 100)));
    insta::assert_snapshot!(bars.join("\n"), @"
    0: 
    1: ▏
    50: ██████
    99: ████████████
    100: ████████████
    1000: ████████████
    ");
    assert_eq!(bar(0, 0), "");
    assert_eq!(bar(u64::MAX, u64::MAX), bar(1, 1));
}

#[test]
fn a_change_has_an_arrow() {
    let sizes = [
        (Some(1000), Some(1500)),
        (Some(1500), Some(1000)),
        (Some(7), Some(7)),
        (None, Some(7)),
        (Some(7), None),
    ];
    let changes = sizes.map(|(before, after)| change(before, after));
    insta::assert_snapshot!(changes.join("\n"), @"
    🔺 +500 B (+50.0 %)
    🔻 −500 B (−33.3 %)
    ±0 B (±0.0 %)
    🟩 **new**
    🟥 **gone**
    ");
}
