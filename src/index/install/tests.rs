//! The lines for sets of each form, and for the places where they are.

use super::*;
use crate::index::tests as samples;

fn all(set: &SetJson) -> String {
    with_base(set, None)
}

fn with_base(set: &SetJson, base: Option<&Urls>) -> String {
    let urls = samples::urls();
    let places = Places { set: &urls, base };
    let choices = choices(set);
    let of_way = |way: usize| {
        let lines = choices.iter().map(move |choice| lines(set, places, choice));
        lines.filter_map(move |lines| Some(lines.get(way)?.1.clone()))
    };
    (0..4).flat_map(of_way).collect::<Vec<String>>().join("\n")
}

#[test]
fn pip_never_gets_a_second_index() {
    let base = "https://deps.example/simple".parse().unwrap();
    let frameworks = samples::document_of(&["torch"]);
    insta::assert_snapshot!(with_base(&frameworks, Some(&base)), @"uv pip install --default-index https://deps.example/simple/ --index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'torch==7.13.0.dev0+ab'");
    let set = samples::document_of(&["rocm", "rocm-sdk-core"]);
    insta::assert_snapshot!(with_base(&set, Some(&base)), @"
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm==7.13.0.dev0+ab'
    uv pip install --default-index https://deps.example/simple/ --index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm==7.13.0.dev0+ab'
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm==7.13.0.dev0+ab'
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm==7.13.0.dev0+ab'
    ");
}

#[test]
fn the_own_line_names_the_address_of_a_set_with_rocm() {
    let line = |set: &SetJson, url: &str| {
        let urls = url.parse().unwrap();
        let base = "https://deps.example/simple".parse();
        let base = base.unwrap();
        own_line(set, Places { set: &urls, base: Some(&base) })
    };
    let set = samples::document();
    let frameworks = samples::document_of(&["torch"]);
    let address = "https://mine.s3.amazonaws.com/1-linux/python";
    insta::assert_snapshot!(line(&set, address).unwrap(), @"rocwheel install https://mine.s3.amazonaws.com/1-linux/python/ --deps https://deps.example/simple/");
    insta::assert_snapshot!(line(&set, "file:///tmp/python").unwrap(), @"rocwheel install file:///tmp/python/ --deps https://deps.example/simple/");
    assert_eq!(line(&frameworks, address), None);
}

#[test]
fn a_split_set_is_installed_for_a_target() {
    insta::assert_snapshot!(all(&samples::document()), @"
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    ");
}

#[test]
fn each_family_has_an_index_of_its_own() {
    insta::assert_snapshot!(all(&samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"])), @"
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/ 'rocm==7.13.0.dev0+ab'
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/ 'rocm==7.13.0.dev0+ab'
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/ 'rocm==7.13.0.dev0+ab'
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/ 'rocm==7.13.0.dev0+ab'
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx110X-all.html 'rocm==7.13.0.dev0+ab'
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx94X-dcgpu.html 'rocm==7.13.0.dev0+ab'
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx110X-all.html 'rocm==7.13.0.dev0+ab'
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx94X-dcgpu.html 'rocm==7.13.0.dev0+ab'
    ");
}

#[test]
fn what_was_downloaded_is_found_in_its_directory() {
    let sets = [
        samples::document(),
        samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"]),
        samples::document_of(&["torch"]),
    ];
    let lines = sets.iter().flat_map(|set| {
        let choices = choices(set).into_iter();
        choices.map(|choice| downloaded(set, "packages", &choice)[1].1.clone())
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    uv pip install --no-index --find-links packages 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
    uv pip install --no-index --find-links packages 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
    uv pip install --no-index --find-links packages --find-links packages/gfx110X-all 'rocm==7.13.0.dev0+ab'
    uv pip install --no-index --find-links packages --find-links packages/gfx94X-dcgpu 'rocm==7.13.0.dev0+ab'
    uv pip install --no-index --find-links packages 'torch==7.13.0.dev0+ab'
    ");
}

#[test]
fn a_line_names_no_more_projects_than_anybody_reads() {
    let projects: Vec<String> = (0..10_000).map(|it| format!("project-{it}")).collect();
    let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
    let line = all(&samples::document_of(&projects)).lines().next().unwrap().to_owned();
    assert_eq!(line.matches("project-").count(), MOST_PROJECTS);
}

#[test]
fn windows_takes_double_quotes() {
    let mut set = samples::document();
    set.identity.platform = Some(Platform::Windows);
    let line = all(&set).lines().next().unwrap().to_owned();
    insta::assert_snapshot!(line, @r#"pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ "rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab""#);
}

#[test]
fn a_set_without_device_wheels_has_one_line() {
    let set = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-libraries-gfx94x-dcgpu"]);
    insta::assert_snapshot!(all(&set), @"
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries]==7.13.0.dev0+ab'
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries]==7.13.0.dev0+ab'
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries]==7.13.0.dev0+ab'
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries]==7.13.0.dev0+ab'
    ");
}

#[test]
fn a_set_without_rocm_names_its_projects() {
    let set = samples::document_of(&["torch", "torchvision"]);
    insta::assert_snapshot!(all(&set), @"
    pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
    uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
    pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
    uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
    ");
}
