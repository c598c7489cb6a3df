//! The action in a job: what it runs, what later steps get, and how it fails. Which command line the inputs
//! are is a unit test of the command line.

use super::runner::{Repository, Run, ours};

fn run(steps: &str) -> Run {
    let steps = steps.replace("ROCWHEEL", ours());
    let job = "on: push\njobs:\n  job:\n    runs-on: ubuntu-latest\n    steps:\n";
    Repository::new().run("push", &format!("{job}{steps}"))
}

#[test]
#[ignore = "slow"]
fn a_command_gets_its_inputs_and_later_steps_its_outputs() {
    let run = run(r#"
      - uses: ROCWHEEL
      - run: rocwheel kpack --help && mkdir "a b"
      - id: packages
        uses: ROCWHEEL
        with:
          command: pipeline
          working-directory: a b
          sample: true
          output-dir: $(touch hacked) "x" 'y' %PATH%
          args: |
            --summary=summary.md
            --ignore RW405
            --require-targets=
            -vv
      - env:
          INDEX: ${{ steps.packages.outputs.package-index-url }}
          LINKS: ${{ steps.packages.outputs.package-find-links-url }}
          THEIRS: ${{ steps.packages.outputs.package_find_links_url }}
          SPLIT: ${{ steps.packages.outputs.kpack-split }} ${{ steps.packages.outputs.kpack_split }}
          VERSION: ${{ steps.packages.outputs.version }}
          TARGETS: ${{ steps.packages.outputs.targets }}
        run: |
          echo "version $VERSION, targets $TARGETS, split $SPLIT"
          case $INDEX in "file://"*"$GITHUB_RUN_ID-linux/python/simple/") ;; *) exit 1 ;; esac
          test "$LINKS" = "$THEIRS"
          cd "a b"
          printf '%s\n' *
          test ! -e hacked && test ! -e ../hacked
          grep -c gfx942 summary.md >/dev/null
"#)
    .expect_success();
    let printed = run.printed("job");
    for line in [
        "Inspect device code",
        "version 0.99.1.dev0, targets gfx1100,gfx942, split true true\n",
        "\n$(touch hacked) \"x\" 'y' %PATH%\n",
    ] {
        assert_has!(printed, line);
    }
    assert_has!(run.log(), "::group::Packages");
    let summaries = run.summaries();
    assert_eq!(summaries.len(), 1);
    assert!(summaries[0].contains("pip install --index-url file://"));
}

#[test]
fn a_failing_command_fails_its_step_says_why_and_prints_no_token() {
    let steps = r#"
      - uses: ROCWHEEL
        with:
          github-token: not-much-of-a-token
          command: check
          set: not-much-of-a-token
      - run: echo never
      - if: always()
        run: echo "it is not-much-of-a-token"
"#;
    // `act` loses the last lines of a step that fails now and then, on a busy machine.
    let mut runs = (0..3).map(|_| run(steps));
    let run = runs.find(|run| run.log().contains("::error title=")).expect("an annotation");
    assert!(!run.succeeded);
    let log = run.log();
    assert_has!(log, "exit status 2");
    assert_lacks!(log, "never");
    assert_eq!(run.jobs().into_values().collect::<Vec<_>>(), ["failure"]);
    let printed = run.printed("job");
    assert_has!(printed, "it is ***");
    let leaks: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("not-much-of-a-token") && !line.contains("::add-mask::"))
        .collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
