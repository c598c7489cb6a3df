//! The manifest, wherever in an archive it is, and what it says of the others.

use super::*;

#[test]
fn an_archive_has_one_manifest_that_can_be_read() {
    insta::assert_snapshot!(refused(Craft::default()), @"
    the archive has no `artifact_manifest.txt`

    hint: an artifact has a file of that name at its top, which lists its base directories
    ");
    insta::assert_snapshot!(refused(Craft::default().file("x/artifact_manifest.txt", b"b").file("x/b/y", b"")), @"
    the archive has no `artifact_manifest.txt`

    hint: an artifact has a file of that name at its top, which lists its base directories
    ");
    insta::assert_snapshot!(refused(Craft::default().symlink(MANIFEST, "b/manifest")), @"`artifact_manifest.txt` is not a regular file");
    insta::assert_snapshot!(refused(Craft::default().directory("artifact_manifest.txt/")), @"`artifact_manifest.txt` is not a regular file");
    insta::assert_snapshot!(refused(Craft::default().file("artifact_manifest.txt/x", b"b")), @"
    the archive has no `artifact_manifest.txt`

    hint: an artifact has a file of that name at its top, which lists its base directories
    ");
    insta::assert_snapshot!(refused(Craft::default().file(MANIFEST, b"b\n/etc\n")), @r#"
    failed to read `artifact_manifest.txt`
      caused by: line 2: an absolute path: "/etc"
    "#);
    insta::assert_snapshot!(refused(Craft::default().file(MANIFEST, &vec![b'\n'; 2 << 20])), @"
    failed to read `artifact_manifest.txt`
      caused by: more than 1048576 bytes
    ");
    insta::assert_snapshot!(refused(archive().file(MANIFEST, b"b")), @"two members are called `artifact_manifest.txt`");
}

#[test]
fn what_comes_before_the_manifest_is_held_to_it_too() {
    let late = |tar: Craft| tar.file(MANIFEST, b"a/stage\nb\n");
    let early = Craft::default().directory("a/").file("a/stage/x", b"1");
    let destination = TempDir::new().unwrap();
    let unpacked = unpack_tar(&late(early).file("b/y", b"2").end(), &destination).unwrap();
    assert_eq!((unpacked.files, unpacked.bytes), (2, 2));
    let manifest = fs_err::read_to_string(unpacked.directory.join(MANIFEST));
    assert_eq!(manifest.unwrap(), "a/stage\nb\n");
    let strays = [
        Craft::default().file("b/x", b"").file("c", b"").file("d", b""),
        Craft::default().directory("c/"),
        Craft::default().symlink("a/x", "stage"),
        Craft::default().file("a", b""),
    ];
    let said = strays.map(|tar| refused(late(tar)));
    insta::assert_snapshot!(said.join("\n"), @"
    `c` lies in none of the directories that `artifact_manifest.txt` lists
    `c` lies in none of the directories that `artifact_manifest.txt` lists
    `a/x` lies in none of the directories that `artifact_manifest.txt` lists
    `a` lies in none of the directories that `artifact_manifest.txt` lists
    ");
}
