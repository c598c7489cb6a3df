//! The action in a job: what it runs, what later steps get, and how it fails.

use super::runner::{Repository, ours};

fn workflow(steps: &str) -> String {
    let steps = steps.replace("ROCWHEEL", ours());
    format!("on: push\njobs:\n  job:\n    runs-on: ubuntu-latest\n    steps:\n{steps}")
}

#[test]
fn a_later_step_reads_the_outputs_of_the_pipeline() {
    let run = Repository::new()
        .run(
            "push",
            &workflow(
                r#"
      - id: packages
        uses: ROCWHEEL
        with:
          command: pipeline
          sample: true
          output-dir: out
          args: --summary=summary.md
      - env:
          INDEX: ${{ steps.packages.outputs.package-index-url }}
          LINKS: ${{ steps.packages.outputs.package-find-links-url }}
          THEIRS: ${{ steps.packages.outputs.package_find_links_url }}
          SPLIT: ${{ steps.packages.outputs.kpack-split }} ${{ steps.packages.outputs.kpack_split }}
          VERSION: ${{ steps.packages.outputs.version }}
          TARGETS: ${{ steps.packages.outputs.targets }}
          SET: ${{ fromJSON(steps.packages.outputs.set-json).files[0].path }}
        run: |
          echo "version $VERSION, targets $TARGETS, split $SPLIT, first $SET"
          case $INDEX in "file://$PWD/out/"*"$GITHUB_RUN_ID-linux/python/simple/") ;; *) exit 1 ;; esac
          test "$LINKS" = "$THEIRS"
          test -f "${LINKS#file://}"
          grep -c gfx942 summary.md >/dev/null
          rocwheel --version
"#,
            ),
        )
        .expect_success();
    let printed = run.printed("job");
    let line = "version 0.0.1.dev0, targets gfx1100,gfx942, split true true, first dist/rocm-0.0.1.dev0.tar.gz\n";
    assert!(printed.contains(line), "{printed}");
    assert_eq!(
        printed.matches("rocwheel 0.").count(),
        2,
        "found, and on the PATH: {printed}"
    );
    assert!(run.log().contains("::group::Packages"), "{}", run.log());
    let summaries = run.summaries();
    assert_eq!(summaries.len(), 1);
    assert!(
        summaries[0].contains("pip install --index-url file://"),
        "{summaries:?}"
    );
}

#[test]
fn a_failing_command_fails_its_step_and_says_why() {
    let steps = "
      - uses: ROCWHEEL
        with:
          command: check
          set: nowhere
      - run: echo never
";
    let run = Repository::new().run("push", &workflow(steps));
    assert!(!run.succeeded);
    let printed = run.log();
    assert!(printed.contains("::error title="), "{printed}");
    assert!(printed.contains("exit status 2"), "{printed}");
    assert!(!printed.contains("never"), "{printed}");
    assert_eq!(run.jobs().into_values().collect::<Vec<_>>(), ["failure"]);
}

#[test]
fn a_flag_of_another_command_is_refused() {
    let steps = "
      - uses: ROCWHEEL
        with:
          command: build
          multi-target: true
";
    let run = Repository::new().run("push", &workflow(steps));
    assert!(!run.succeeded);
    let printed = run.log();
    assert!(
        printed.contains("unexpected argument '--multi-target' found"),
        "{printed}"
    );
}

#[test]
fn paths_and_values_arrive_as_they_are() {
    let steps = r#"
      - run: mkdir "a b"
      - uses: ROCWHEEL
        with:
          command: pipeline
          working-directory: a b
          sample: true
          output-dir: $(touch hacked) "x" 'y' %PATH%
          args: |
            --ignore=RW404
            --ignore RW405
            --require-targets=
            -vv
      - run: |
          (cd 'a b' && printf '%s\n' *)
          test ! -e hacked
          test ! -e "a b/hacked"
"#;
    let run = Repository::new()
        .run("push", &workflow(steps))
        .expect_success();
    let printed = run.printed("job");
    assert!(
        printed.contains("\n$(touch hacked) \"x\" 'y' %PATH%\n"),
        "{printed}"
    );
}

#[test]
fn a_token_is_masked_wherever_it_is_printed() {
    let steps = r#"
      - uses: ROCWHEEL
        with:
          github-token: not-much-of-a-token
          command: index
          set: not-much-of-a-token
      - if: always()
        run: echo "it is not-much-of-a-token"
"#;
    let run = Repository::new().run("push", &workflow(steps));
    let printed = run.printed("job");
    assert!(printed.contains("it is ***"), "{printed}");
    let said_before = "::add-mask::";
    let leaks: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("not-much-of-a-token") && !line.contains(said_before))
        .collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[test]
fn without_a_command_the_binary_is_put_on_the_path() {
    let steps = "
      - uses: ROCWHEEL
      - run: rocwheel kpack --help
";
    let run = Repository::new()
        .run("push", &workflow(steps))
        .expect_success();
    assert!(run.printed("job").contains("Inspect device code"));
}
