//! Tests of the complete output of a console.

use super::{
    captured::{GITHUB, JSON, PLAIN},
    *,
};
use rocwheel_base::error::{Hint, No, anyhow};

/// A stream whose writes fail.
struct Refusing(ErrorKind);

impl Write for Refusing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `speak` writes to stdout and to stderr.
fn said(settings: ConsoleSettings, speak: impl FnOnce(&Console)) -> (String, String) {
    let (console, transcript) = captured::console(settings);
    speak(&console);
    drop(console);
    (transcript.stdout(), transcript.stderr())
}

fn talk(settings: ConsoleSettings, speak: impl FnOnce(&Console)) -> String {
    said(settings, speak).1
}

fn failure() -> Error {
    let inner: Result<()> = Err(anyhow!("access denied: 50%")).hint("unset `AWS_PROFILE`");
    inner
        .context("failed to list `s3://bucket/1-linux/`")
        .context("failed to fetch artifacts of run 1")
        .unwrap_err()
}

fn everything(console: &Console) {
    console.status("Scanned", "214 artifacts, 61,402 files");
    console.status("Built", "rocm-7.0.tar.gz: 12 files");
    console.note("3 packages were left out");
    console.warn("no manifest in `core_lib_generic`");
    console.debug("read `core_lib_generic/artifact_manifest.txt`");
    console.annotate(&Annotation::new(
        AnnotationLevel::Warning,
        "no manifest",
        "in `core_lib_generic`",
    ));
    console.error(&failure());
}

#[test]
fn of_many_notes_the_first_ten_are_shown_and_how_many_more_there_are() {
    let notes = |count: usize| (1..=count).map(|it| format!("note {it}")).collect::<Vec<_>>();
    let few = talk(PLAIN, |console| console.first_notes(&notes(10)));
    assert_eq!(few.lines().count(), 10, "{few}");
    let many = talk(PLAIN, |console| console.first_notes(&notes(25)));
    assert_eq!(many.lines().count(), 11, "{many}");
    assert!(many.ends_with("note: 15 more like these: `-v` shows them\n"), "{many}");
    let debug = ConsoleSettings { verbosity: Verbosity::Debug, ..PLAIN };
    let all = talk(debug, |console| console.first_notes(&notes(25)));
    assert_eq!(all.lines().count(), 25, "{all}");
}

#[test]
fn verbs_stand_in_a_column() {
    insta::assert_snapshot!(talk(PLAIN, everything), @"
         Scanned 214 artifacts, 61,402 files
           Built rocm-7.0.tar.gz: 12 files
    note: 3 packages were left out
    warning: no manifest in `core_lib_generic`
    warning: no manifest: in `core_lib_generic`
    error: failed to fetch artifacts of run 1
      caused by: failed to list `s3://bucket/1-linux/`
      caused by: access denied: 50%

    hint: unset `AWS_PROFILE`
    ");
}

#[test]
fn colors_mark_verbs_and_labels() {
    let settings = ConsoleSettings { stderr_color: true, ..PLAIN };
    insta::assert_snapshot!(talk(settings, everything).replace('\u{1b}', "^"), @"
    ^[1m^[32m     Scanned^[0m 214 artifacts, 61,402 files
    ^[1m^[32m       Built^[0m rocm-7.0.tar.gz: 12 files
    ^[1m^[36mnote:^[0m 3 packages were left out
    ^[1m^[33mwarning:^[0m no manifest in `core_lib_generic`
    ^[1m^[33mwarning:^[0m no manifest: in `core_lib_generic`
    ^[1m^[31merror:^[0m failed to fetch artifacts of run 1
    ^[2m  caused by:^[0m failed to list `s3://bucket/1-linux/`
    ^[2m  caused by:^[0m access denied: 50%

    ^[1m^[36mhint:^[0m unset `AWS_PROFILE`
    ");
}

#[test]
fn github_gets_annotations_beside_the_talk() {
    insta::assert_snapshot!(talk(GITHUB, everything), @"
         Scanned 214 artifacts, 61,402 files
           Built rocm-7.0.tar.gz: 12 files
    note: 3 packages were left out
    warning: no manifest in `core_lib_generic`
    ::warning title=no manifest::in `core_lib_generic`
    error: failed to fetch artifacts of run 1
      caused by: failed to list `s3://bucket/1-linux/`
      caused by: access denied: 50%

    hint: unset `AWS_PROFILE`
    ::error title=failed to fetch artifacts of run 1::failed to list `s3://bucket/1-linux/`%0Aaccess denied: 50%25%0Ahint: unset `AWS_PROFILE`
    ");
}

#[test]
fn each_q_and_v_moves_a_level() {
    let at = |verbosity| talk(ConsoleSettings { verbosity, ..PLAIN }, everything);
    insta::assert_snapshot!(at(Verbosity::Debug), @"
         Scanned 214 artifacts, 61,402 files
           Built rocm-7.0.tar.gz: 12 files
    note: 3 packages were left out
    warning: no manifest in `core_lib_generic`
    debug: read `core_lib_generic/artifact_manifest.txt`
    warning: no manifest: in `core_lib_generic`
    error: failed to fetch artifacts of run 1
      caused by: failed to list `s3://bucket/1-linux/`
      caused by: access denied: 50%

    hint: unset `AWS_PROFILE`
    ");
    insta::assert_snapshot!(at(Verbosity::Warnings), @"
    warning: no manifest in `core_lib_generic`
    warning: no manifest: in `core_lib_generic`
    error: failed to fetch artifacts of run 1
      caused by: failed to list `s3://bucket/1-linux/`
      caused by: access denied: 50%

    hint: unset `AWS_PROFILE`
    ");
    insta::assert_snapshot!(at(Verbosity::Errors), @"
    error: failed to fetch artifacts of run 1
      caused by: failed to list `s3://bucket/1-linux/`
      caused by: access denied: 50%

    hint: unset `AWS_PROFILE`
    ");
}

#[test]
fn an_error_is_json_on_stdout_when_json_was_asked_for() {
    let (stdout, _) = said(JSON, |console| console.error(&failure()));
    insta::assert_snapshot!(stdout, @r#"{"schema":"rocwheel-error-v1","error":"failed to fetch artifacts of run 1","causes":["failed to list `s3://bucket/1-linux/`","access denied: 50%"],"hints":["unset `AWS_PROFILE`"],"exit":2}"#);
}

#[test]
fn an_error_after_the_answer_leaves_one_document_on_stdout() {
    let (stdout, stderr) = said(JSON, |console| {
        console.json(&["a ##[error] finding"]).unwrap();
        console.error(&No("1 finding".into()).into());
    });
    insta::assert_snapshot!(stdout, @r#"["a #\u0023[error] finding"]"#);
    insta::assert_snapshot!(stderr, @"error: 1 finding");
}

#[test]
fn an_answer_is_text_or_json() {
    #[derive(Serialize)]
    struct Wheels(Vec<&'static str>);
    impl Display for Wheels {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.0.join("\n"))
        }
    }
    let wheels = Wheels(vec!["a.whl", "b.whl"]);
    let in_format = |format| {
        let settings = ConsoleSettings { format, ..PLAIN };
        said(settings, |console| console.answer(&wheels).unwrap()).0
    };
    assert_eq!(in_format(OutputFormat::Text), "a.whl\nb.whl\n");
    assert_eq!(in_format(OutputFormat::Github), "a.whl\nb.whl\n");
    assert_eq!(in_format(OutputFormat::Json), "[\"a.whl\",\"b.whl\"]\n");
}

#[test]
fn a_group_folds_in_github_and_does_not_nest() {
    let speak = |console: &Console| {
        let outer = console.group("check\n50%");
        console.status("Checked", "a.whl");
        let inner = console.group("details");
        console.status("Checked", "b.whl");
        drop(inner);
        drop(outer);
        let _after = console.group("upload");
    };
    insta::assert_snapshot!(talk(GITHUB, speak), @r"
    ::group::check%0A50%25
         Checked a.whl
    details
         Checked b.whl
    ::endgroup::
    ::group::upload
    ::endgroup::
    ");
    insta::assert_snapshot!(talk(PLAIN, speak), @r"
    check\n50%
         Checked a.whl
    details
         Checked b.whl
    upload
    ");
    let quiet = ConsoleSettings { verbosity: Verbosity::Warnings, ..GITHUB };
    assert_eq!(talk(quiet, speak), "");
}

/// Prints an untrusted text in every possible way.
fn relay(console: &Console, text: &str) {
    console.status(text, text);
    console.note(text);
    console.warn(text);
    console.debug(text);
    console.error(&anyhow!(text.to_owned()));
    console.annotate(&Annotation::new(AnnotationLevel::Error, text, text));
    drop(console.group(text));
    drop(console.group(text));
    console.progress("Reading", text, 2).inc(1);
    console.data(text).unwrap();
    console.json(&text).unwrap();
}

#[test]
fn no_text_from_outside_is_obeyed_by_the_runner() {
    let hostile = "\n::add-mask::x\r::error::y\n \u{feff}::stop-commands::z\n##[add-path]w";
    let settings = ConsoleSettings { verbosity: Verbosity::Debug, progress: Show::Lines, ..GITHUB };
    let (stdout, stderr) = said(settings, |console| relay(console, hostile));
    for line in stdout.split(['\n', '\r']).chain(stderr.split(['\n', '\r'])) {
        let ours = ["::group::", "::endgroup::", "::error "]
            .iter()
            .any(|command| line.starts_with(command));
        let obeyed = line.trim_start().trim_start_matches('\u{feff}').starts_with("::");
        assert!(ours || !(obeyed || line.contains("##[")), "{line:?}");
    }
}

#[test]
fn no_text_from_outside_moves_the_cursor() {
    let settings =
        ConsoleSettings { verbosity: Verbosity::Debug, reader: LogReader::Terminal, ..PLAIN };
    let (stdout, stderr) = said(settings, |console| relay(console, "a\u{1b}[2K\r\u{9b}b"));
    assert!(!(stdout + &stderr).contains(|c: char| c.is_control() && c != '\n'));
}

#[test]
fn a_program_that_reads_stdout_gets_it_as_it_is() {
    let text = "::x::\r\n\u{1b}##[y]\n";
    assert_eq!(said(PLAIN, |console| console.data(text).unwrap()).0, text);
}

#[test]
fn a_name_with_a_line_feed_stays_in_its_line() {
    let talk = talk(PLAIN, |console| {
        console.status("Built", "a\n   Uploaded everything\n");
        console.warn("b\nerror: none");
    });
    insta::assert_snapshot!(talk, @r"
           Built a\n   Uploaded everything
    warning: b\nerror: none
    ");
}

#[test]
fn secrets_are_masked_in_all_talk() {
    let settings = ConsoleSettings { verbosity: Verbosity::Debug, progress: Show::Lines, ..GITHUB };
    let (_, stderr) = said(settings, |console| {
        let secret = "https://h/k?X-Amz-Signature=hush";
        console.status("Read", secret);
        console.note(secret);
        console.warn(secret);
        console.debug(secret);
        console.error(&anyhow!(secret));
        console.annotate(&Annotation::new(AnnotationLevel::Warning, secret, secret));
        drop(console.group(secret));
    });
    assert!(stderr.contains("X-Amz-Signature=***"), "{stderr}");
    assert!(!stderr.contains("hush"), "{stderr}");
}

#[test]
fn a_reader_who_left_is_no_error_but_a_full_disk_is() {
    let console =
        |kind| Console::new(PLAIN, Box::new(Refusing(kind)), Box::new(Refusing(kind)), None);
    assert!(console(ErrorKind::BrokenPipe).data("x").is_ok());
    let full = console(ErrorKind::StorageFull);
    full.status("Said", "to nobody");
    insta::assert_snapshot!(error::render(&full.data("x").unwrap_err()), @"
    error: failed to write to standard output
      caused by: no storage space
    ");
}

#[test]
fn a_bar_makes_room_for_lines_and_leaves_nothing_behind() {
    let settings = ConsoleSettings { progress: Show::Bars, ..PLAIN };
    let talk = talk(settings, |console| {
        let progress = console.progress("Building", "a\n.whl", 2048);
        progress.inc(1024);
        console.status("Built", "b.whl");
        console.data("b.whl").unwrap();
        drop(progress);
        console.status("Built", "a.whl");
    });
    insta::assert_snapshot!(talk, @r"
    Building 50 % of 2.00 KiB  a\n.whl<clear>       Built b.whl
    Building 50 % of 2.00 KiB  a\n.whl<clear>    Building 50 % of 2.00 KiB  a\n.whl<clear>       Built a.whl
    ");
}

#[test]
fn a_terminal_shows_the_parts_in_one_bar_and_not_each_in_a_line() {
    let speak = |console: &Console| {
        let progress = console.progress_in_parts("Packing", "packages", 2, 2048);
        progress.begin("a.whl");
        progress.inc(512);
        progress.reach(1024);
        console.item("Packed", "a.whl");
        progress.finish_part();
        drop(progress);
        console.status("Built", "2 packages");
        console.next("rocwheel index packages");
    };
    let watched = ConsoleSettings { progress: Show::Bars, reader: LogReader::Terminal, ..PLAIN };
    let shown = talk(watched, speak);
    assert!(shown.contains("[1/2] 50 % of 2.00 KiB"), "{shown}");
    assert!(!shown.contains("Packed"), "{shown}");
    assert!(shown.contains("Next rocwheel index packages"), "{shown}");
    insta::assert_snapshot!(talk(PLAIN, speak), @"
          Packed a.whl
           Built 2 packages
    ");
}

#[test]
fn many_threads_advance_one_progress() {
    let settings = ConsoleSettings { progress: Show::Lines, ..PLAIN };
    let talk = talk(settings, |console| {
        let progress = console.progress("Building", "a.whl", None);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| progress.inc(1)));
            }
        });
        assert_eq!(progress.done(), 4000);
    });
    assert_eq!(talk, "");
}

#[test]
fn worker_threads_may_speak() {
    fn shared<T: Send + Sync>() {}
    shared::<Console>();
    shared::<Progress>();
}
