//! Symlinks and hard links: where they may lead, and that nothing is written through them.

use super::*;

#[test]
fn links_that_leave_the_artifact_are_refused() {
    insta::assert_snapshot!(refused(archive().symlink("b/x", "../../x")), @"link `b/x` leads out of the artifact: `../../x`");
    // The text alone stays inside; through the other link it does not.
    let disguised = archive()
        .file("b/d/d/f", b"")
        .symlink("b/d/d/top", "../../..")
        .symlink("b/x", "d/d/top/../x");
    insta::assert_snapshot!(refused(disguised), @"link `b/x` leads out of the artifact: `d/d/top/../x`");
    // One link on the way leads down, so the kernel would stay inside; the text alone does not.
    let lexical =
        archive().directory("b/p/q/r").symlink("b/d", "p/q/r").symlink("b/x", "d/../../../y");
    insta::assert_snapshot!(refused(lexical), @"link `b/x` leads out of the artifact: `d/../../../y`");
    insta::assert_snapshot!(refused(archive().hardlink("b/x", "../x")), @r#"
    failed to read the tar header at byte 1024
      caused by: failed to hard link `b/x`
      caused by: a path with `..`: "../x"
    "#);
    insta::assert_snapshot!(refused(archive().hardlink("b/x", "b/y")), @"hard link `b/x` leads to no file unpacked before it: `b/y`");
    insta::assert_snapshot!(refused(archive().symlink("b/y", "z").hardlink("b/x", "b/y")), @"hard link `b/x` leads to no file unpacked before it: `b/y`");
    insta::assert_snapshot!(refused(archive().directory("b/y").hardlink("b/x", "b/y")), @"hard link `b/x` leads to no file unpacked before it: `b/y`");
}

#[cfg(unix)]
#[test]
fn absolute_links_are_kept_and_nothing_is_written_through_them() {
    let outside = TempDir::new().unwrap();
    let text = outside.path().to_str().unwrap();
    let tar = archive().symlink("b/x", text).symlink("b/y", "x").file("b/z", b"");
    let destination = TempDir::new().unwrap();
    let unpacked = unpack_tar(&tar.end(), &destination).unwrap();
    assert_eq!(unpacked.files, 1);
    let found = listing(&unpacked.directory);
    assert!(found.contains(&format!("b/x -> {text}\nb/y -> x")), "{found}");
    // It is replaced like any other.
    unpack_tar(&archive().file("b/x", b"").end(), &destination).unwrap();

    let through = archive().symlink("b/x", text).file("b/x/y", b"");
    insta::assert_snapshot!(refused(through), @"`b/x/y` lies below `b/x`, which is a link");
    let through = archive().symlink("b/x", text).directory("b/x/y/z");
    insta::assert_snapshot!(refused(through), @"`b/x/y/z` lies below `b/x`, which is a link");
    let through = archive().symlink("b/x", text).file("b/x", b"");
    insta::assert_snapshot!(refused(through), @"two members are called `b/x`");
    let through = archive().symlink("b/x", text).hardlink("b/y", "b/x");
    insta::assert_snapshot!(refused(through), @"hard link `b/y` leads to no file unpacked before it: `b/x`");
    // Absolute links excuse no way out of the artifact.
    let climbs = archive().symlink("b/x", text).symlink("b/y", "x/../../../z");
    insta::assert_snapshot!(refused(climbs), @"link `b/y` leads out of the artifact: `x/../../../z`");
    assert_eq!(listing(outside.path()), "");
}

#[test]
fn nothing_is_written_through_a_link_or_a_file() {
    let through = archive().symlink("b/x", ".").file("b/x/y", b"");
    insta::assert_snapshot!(refused(through), @"`b/x/y` lies below `b/x`, which is a link");
    let through = archive().symlink("b/x", "nowhere").directory("b/x/y/z");
    insta::assert_snapshot!(refused(through), @"`b/x/y/z` lies below `b/x`, which is a link");
    insta::assert_snapshot!(refused(archive().file("b/x", b"").file("b/x/y", b"")), @"`b/x/y` lies below `b/x`, which is a file");
    // The symlink comes after a member below its path.
    let late = archive().file("b/x/y", b"").symlink("b/x", ".");
    insta::assert_snapshot!(refused(late), @"two members are called `b/x`");
}
