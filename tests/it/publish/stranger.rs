//! Every install line that is printed, run as it is printed, on a machine whose default index is a
//! stranger's: it has a `rocm` of a final version, which an installer prefers to a pre-release.

use super::{
    Bench, Outcome,
    install::PLACE,
    judge,
    packages::{VERSION, wheel, whole_set},
    rocwheel,
};
use crate::python::legacy;
use crate::support::{memory_server::MemoryServer, prelude::*};

/// A machine that takes packages from a stranger unless a line says otherwise.
struct Machine {
    bench: Bench,
    stranger: Server,
}

impl Machine {
    fn new() -> Self {
        let bench = Bench::new();
        let root = bench.root.join("stranger");
        wheel(&root.join("rocm"), "rocm", "0.1.0", "");
        let link = "<a href=\"rocm-0.1.0-py3-none-any.whl\">rocm-0.1.0-py3-none-any.whl</a>";
        fs_err::write(root.join("rocm/index.html"), link).unwrap();
        let stranger = Server::start(Site::Directory(root));
        let url = &stranger.url;
        let pip = format!("[global]\nindex-url = {url}\n");
        fs_err::write(bench.path("pip.conf"), pip).unwrap();
        let uv = format!("[[index]]\nurl = \"{url}\"\ndefault = true\n");
        fs_err::create_dir_all(bench.path("config/uv")).unwrap();
        fs_err::write(bench.path("config/uv/uv.toml"), uv).unwrap();
        Self { bench, stranger }
    }

    /// A set with an index, on a server.
    fn serve_set(&self) -> (PathBuf, Server) {
        let root = self.bench.root.join("set");
        whole_set(&root);
        rocwheel(&["index", "--no-check", root.to_str().unwrap()]).ok();
        let server = Server::start(Site::Directory(root.clone()));
        (root, server)
    }

    /// Runs a line of shell; the names of the distributions that it installed.
    fn run(&self, line: &str, from: &Path) -> (Outcome, Vec<String>) {
        let environment = self.bench.root.join("environment");
        let python = environment.join("bin/python");
        judge("uv", &["venv", "--clear", "--quiet", text(&environment)]).ok();
        let target = self.bench.root.join("target");
        let (url, programs) = (&self.stranger.url, tool("uv"));
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", programs.parent().unwrap().display());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(from).env_clear();
        command.env("PATH", path).env("HOME", &self.bench.root);
        command.env("PIP_INDEX_URL", url).env("PIP_TARGET", &target);
        command.env("PIP_CONFIG_FILE", self.bench.path("pip.conf"));
        command.env("PIP_NO_CACHE_DIR", "1").env("UV_NO_CACHE", "1");
        command.env("UV_INDEX_URL", url).env("UV_DEFAULT_INDEX", url);
        command.env("XDG_CONFIG_HOME", self.bench.path("config"));
        command.env("VIRTUAL_ENV", &environment);
        let outcome = Outcome::of(command.output().unwrap());
        let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let site = succeed(Command::new(python).args(["-c", ask])).stdout;
        let site = String::from_utf8(site).unwrap();
        let mut found = distributions(Path::new(site.trim()));
        if target.exists() {
            found.extend(distributions(&target));
            fs_err::remove_dir_all(target).unwrap();
        }
        (outcome, found)
    }

    /// The line installs the set, and the stranger is not asked for anything.
    fn installs(&self, line: &str, version: &str) {
        self.installs_from(line, version, &self.bench.root);
    }

    fn installs_from(&self, line: &str, version: &str, from: &Path) {
        let before = self.stranger.requests();
        let (ran, found) = self.run(line, from);
        assert_eq!(ran.code, 0, "{line}\n{}{}", ran.stdout, ran.stderr);
        let mut projects = vec!["rocm", "rocm_sdk_core"];
        // A legacy set has other libraries for each family.
        if !line.contains("/gfx") {
            projects.push("rocm_sdk_libraries");
        }
        for project in projects {
            let expected = format!("{project}-{version}.dist-info");
            assert!(found.contains(&expected), "{line}\n{found:?}");
        }
        assert_eq!(self.stranger.requests(), before, "{line}");
    }
}

fn distributions(directory: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(directory).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".dist-info")).collect()
}

fn install_lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    let is_install = |line: &&str| line.starts_with("pip install") || line.starts_with("uv pip");
    lines.filter(is_install).collect()
}

/// The lines of the page at `address`, each with the address pasted at its end.
fn lines_of_page(html: &str, address: &str) -> Vec<String> {
    let end = if html.contains("up to <code>simple/</code>") {
        address.find("simple/").unwrap() + "simple/".len()
    } else {
        address.len()
    };
    let blocks = html.split("<pre>").skip(1);
    let lines = blocks.map(|block| block.split("</pre>").next().unwrap());
    let lines = lines.map(|line| line.replace("&quot;", "\"") + &address[..end]);
    lines.collect()
}

#[test]
fn a_line_that_names_no_index_would_take_the_strangers() {
    let machine = Machine::new();
    for line in ["pip install rocm", "uv pip install rocm"] {
        let (ran, found) = machine.run(line, &machine.bench.root);
        assert_eq!(ran.code, 0);
        assert_eq!(found, ["rocm-0.1.0.dist-info"]);
    }
    assert!(!machine.stranger.requests().is_empty());
}

#[test]
#[ignore = "slow"]
fn the_lines_of_a_page_ask_no_stranger_however_the_page_was_opened() {
    let machine = Machine::new();
    let (root, server) = machine.serve_set();
    let opened = "dist/ dist/index.html simple/ simple/rocm/ simple/index.html";
    for opened in opened.split(' ').step_by(long::rounds(5, 1)) {
        let file = opened.trim_end_matches("index.html");
        let html = fs_err::read_to_string(root.join(file).join("index.html")).unwrap();
        let lines = lines_of_page(&html, &format!("{}{opened}", server.url));
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in lines {
            assert_has!(line, "rocm[libraries,devel,device-gfx942]==");
            machine.installs(&line, VERSION);
        }
    }
}

/// A bucket has an address, so that its lines need nothing at their end.
#[test]
#[ignore = "slow"]
fn the_lines_of_the_pages_of_a_bucket_ask_no_stranger() {
    let machine = Machine::new();
    let root = machine.bench.root.join("set");
    whole_set(&root);
    let server = MemoryServer::start();
    server.publish(PLACE, &root, "");
    let pages = ["", "dist/", "dist/index.html", "simple/", "simple/rocm/", "simple/index.html"];
    for page in pages.into_iter().step_by(long::rounds(5, 1)) {
        let object = server.store.find(&format!("42-linux/python/{page}")).unwrap();
        let html = String::from_utf8(object.bytes).unwrap();
        let lines = lines_of_page(&html, "");
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in lines {
            assert_has!(line, "rocm[libraries,devel,device-gfx942]==", &server.url);
            machine.installs(&line, VERSION);
        }
    }
}

#[test]
#[ignore = "slow"]
fn the_lines_of_a_summary_ask_no_stranger() {
    let machine = Machine::new();
    let (root, server) = machine.serve_set();
    let at = root.to_str().unwrap();
    let index = format!("{}simple/", server.url);
    let summary = rocwheel(&["summary", at, "--index-url", &index]).ok();
    let lines = install_lines(&summary);
    assert_eq!(lines.len(), 4, "{summary}");
    for line in lines {
        machine.installs(line, VERSION);
    }
    let kept = rocwheel(&["summary", at, "--workflow-artifact", "dist"]).ok();
    let lines = install_lines(&kept);
    assert_eq!(lines.len(), 2, "{kept}");
    for line in lines.into_iter().take(long::rounds(1, 2)) {
        machine.installs_from(line, VERSION, &root);
    }
}

#[test]
#[ignore = "slow"]
fn the_last_lines_of_a_pipeline_ask_no_stranger() {
    let machine = Machine::new();
    for set in sets() {
        let said = set.last_lines();
        let lines = install_lines(&said);
        assert_eq!(lines.len(), 1, "{said}");
        machine.installs(lines[0], published::VERSION);
    }
}

#[test]
#[ignore = "slow"]
fn the_lines_for_several_families_ask_no_stranger() {
    let machine = Machine::new();
    let root = machine.bench.root.join("families");
    let run = root.join("run");
    let families = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];
    legacy::write_run(&run, &families);
    published::publish(&root, &["--artifact-dir", text(&run)]);
    let page = fs_err::read_to_string(root.join("page.md")).unwrap();
    let lines = install_lines(&page);
    assert_eq!(lines.len(), 8, "{page}");
    for (_, family) in families {
        let of_family: Vec<_> = lines.iter().filter(|it| it.contains(family)).collect();
        assert_eq!(of_family.len(), 4, "{page}");
        for line in of_family.into_iter().take(long::rounds(1, 4)) {
            machine.installs(line, published::VERSION);
        }
    }
}

/// The other index has the same version of `rocm`, as a wheel, which installers prefer to an sdist.
#[test]
#[ignore = "slow"]
fn a_line_with_two_indexes_takes_nothing_of_ours_from_the_other() {
    let machine = Machine::new();
    let (root, server) = machine.serve_set();
    let project = machine.bench.root.join("stranger/rocm");
    wheel(&project, "rocm", VERSION, "");
    let file = format!("rocm-{VERSION}-py3-none-any.whl");
    fs_err::write(project.join("index.html"), format!("<a href=\"{file}\">{file}</a>")).unwrap();
    let index = format!("{}simple/", server.url);
    let base = ["--index-url", &index, "--base-index", &machine.stranger.url];
    let summary = rocwheel(&[&["summary", text(&root)][..], &base].concat()).ok();
    let with_base = |line: &&str| line.contains(&machine.stranger.url);
    let lines: Vec<&str> = install_lines(&summary).into_iter().filter(with_base).collect();
    assert_eq!(lines.len(), 1, "{summary}");
    assert!(lines[0].starts_with("uv "), "{summary}");
    machine.installs(lines[0], VERSION);
}

/// Packages do not know where they are published, so that their lines say what to fill in.
#[test]
#[ignore = "slow"]
fn the_lines_of_the_packages_themselves_ask_no_stranger() {
    let machine = Machine::new();
    let root = &machine.bench.root;
    let sdist = format!("rocm-{}", published::VERSION);
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(sample().dist().join(format!("{sdist}.tar.gz")));
    succeed(tar.arg("-C").arg(root));
    let readme = fs_err::read_to_string(root.join(&sdist).join("PKG-INFO")).unwrap();
    let mut python = Command::new(tool("python"));
    python.env("PYTHONPATH", root.join(sdist).join("src"));
    let ask = "from rocm_sdk._dist_info import install_command as it; print(it('libraries'))";
    let said = String::from_utf8(succeed(python.args(["-c", ask])).stdout).unwrap();
    let (said, _) = said.split_once(" (").unwrap();
    let readme = install_lines(&readme);
    assert_eq!(readme.len(), 1, "{readme:?}");
    let index = format!("file://{}/simple/", sample().place().display());
    for line in [readme[0], said] {
        assert_has!(line, " INDEX_URL ");
        machine.installs(&line.replace("INDEX_URL", &index), published::VERSION);
    }
}
