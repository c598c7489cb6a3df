//! Who may reach out of the process, and how that looks in a source.

use super::{
    house::{Read, Violation},
    source::{Path, Token},
};

/// Something outside the process, how code reaches it, and who may.
struct May {
    what: &'static str,
    /// Names that stand behind each other in a path.
    paths: &'static [&'static str],
    /// Paths that look like it and are harmless.
    except: &'static [&'static str],
    macros: &'static [&'static str],
    /// Functions, when they are called by their bare name.
    calls: &'static [&'static str],
    /// Methods that nothing but a path of the file system has.
    methods: &'static [&'static str],
    who: &'static [&'static str],
    in_tests: Tests,
}

const ADVICE: &str = "take the value as an argument, or see who may in architecture/world.rs";

#[derive(PartialEq)]
enum Tests {
    MayToo,
    MayNot,
}

const MAY: [May; 7] = [
    May {
        what: "touches the disk",
        paths: &[
            "fs_err",
            "std::fs",
            "tokio::fs",
            "fs::read",
            "fs::write",
            "File::open",
            "File::create",
            "File::options",
            "OpenOptions::new",
            "unix::fs",
            "windows::fs",
            "tempfile",
        ],
        except: &[],
        macros: &[],
        calls: &[],
        methods: &[
            "try_exists",
            "canonicalize",
            "read_dir",
            "read_link",
            "symlink_metadata",
        ],
        who: &[
            "atomic",
            "artifact/input",
            "spool",
            "artifact/output",
            "artifact/recombine",
            "artifact/split",
            "artifact/tree",
            "artifact/unpack",
            "package/assemble",
            "package/split_tree",
            "fetch",
            "store/local",
            "github",
            "set",
            "framework/device_selector",
            "framework/fuse",
            "framework/packages",
            "framework/read",
            "gpu/access",
            "gpu/files",
            "install/act",
            "install/environment",
            "install/process",
            "install/sdk",
            "framework/split",
            "framework/unpack",
            "promote/frameworks",
            "promote/observe",
            "promote/rebuilt",
            "promote/tarballs",
            "promote/write",
            "commands",
        ],
        in_tests: Tests::MayToo,
    },
    May {
        what: "touches the network",
        paths: &[
            "reqwest",
            "aws_sdk_s3",
            "aws_config",
            "hyper",
            "tokio::net",
            "std::net",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
        ],
        except: &[
            "std::net::IpAddr",
            "std::net::Ipv4Addr",
            "std::net::Ipv6Addr",
        ],
        macros: &[],
        calls: &[],
        methods: &[],
        who: &["store/s3", "store/http", "github"],
        in_tests: Tests::MayNot,
    },
    May {
        what: "prints",
        paths: &[
            "io::stdout",
            "io::stderr",
            "tokio::io::stdout",
            "tokio::io::stderr",
        ],
        except: &[],
        macros: &["print", "println", "eprint", "eprintln", "dbg"],
        calls: &["stdout", "stderr"],
        methods: &[],
        who: &["console"],
        in_tests: Tests::MayNot,
    },
    May {
        what: "reads the environment",
        paths: &[
            "std::env",
            "env::var",
            "env::var_os",
            "env::vars",
            "env::args",
            "env::args_os",
        ],
        except: &["std::env::consts"],
        macros: &[],
        calls: &[],
        methods: &[],
        who: &["commands/args", "console"],
        in_tests: Tests::MayToo,
    },
    May {
        what: "starts threads",
        paths: &[
            "std::thread",
            "thread::spawn",
            "thread::scope",
            "thread::Builder",
            "rayon",
            "spawn_blocking",
        ],
        except: &["std::thread::available_parallelism", "std::thread::sleep"],
        macros: &[],
        calls: &[],
        methods: &[],
        who: &["parallel", "package/assemble"],
        in_tests: Tests::MayToo,
    },
    May {
        what: "looks at the machine",
        paths: &["thread::available_parallelism", "IsTerminal"],
        except: &[],
        macros: &[],
        calls: &["available_parallelism"],
        methods: &[],
        who: &["console", "commands"],
        in_tests: Tests::MayToo,
    },
    May {
        what: "starts or ends a process",
        paths: &["process::Command", "process::exit", "process::abort"],
        except: &[],
        macros: &[],
        calls: &[],
        methods: &[],
        // `gh auth token` is where people keep their login, and `doctor` asks programs for their
        // version.
        who: &[
            "commands/args",
            "commands/doctor/observe",
            "atomic/lock",
            "install/act",
            "install/process",
        ],
        in_tests: Tests::MayToo,
    },
];

/// Few may reach out of the process.
pub(super) fn world(files: &[Read]) -> Vec<Violation> {
    let test_files = test_files(files);
    let mut found = Vec::new();
    for Read {
        file,
        module,
        tokens,
        paths,
    } in files
    {
        let test_file = test_files.iter().any(|test| module.starts_with(test));
        for may in MAY
            .iter()
            .filter(|may| !may.who.iter().any(|who| is_in(module, who)))
        {
            let excused = |test: bool| (test || test_file) && may.in_tests == Tests::MayToo;
            let reaching = paths
                .iter()
                .filter(|path| !excused(path.test) && may.is_reached_by(path))
                .map(|path| (path.line, path.segments.join("::")));
            let bare = (0..tokens.len())
                .filter(|&at| !excused(tokens[at].test) && may.is_named_at(tokens, at))
                .map(|at| (tokens[at].line, tokens[at].text.clone()));
            found.extend(reaching.chain(bare).map(|(line, how)| {
                let what = format!("{} with `{how}`", may.what);
                Violation::new(file, line, what, ADVICE)
            }));
        }
    }
    found
}

impl May {
    fn is_reached_by(&self, path: &Path) -> bool {
        let has = |names: &&str| path.contains(&names.split("::").collect::<Vec<_>>());
        self.paths.iter().any(has) && !self.except.iter().any(has)
    }

    /// A macro, a function or a whole crate under its bare name.
    fn is_named_at(&self, tokens: &[Token], at: usize) -> bool {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
        let name = text(at);
        let before = if at == 0 { "" } else { text(at - 1) };
        let free = !matches!(before, "." | "::" | "fn");
        (self.macros.contains(&name) && text(at + 1) == "!" && text(at + 2) != "=")
            || (self.calls.contains(&name) && text(at + 1) == "(" && free)
            || (self.methods.contains(&name) && text(at + 1) == "(" && before == ".")
            || (self.paths.contains(&name) && before == "use" && text(at + 1) != "::")
    }
}

fn is_in(module: &[String], place: &str) -> bool {
    let place: Vec<&str> = place.split('/').collect();
    module.len() >= place.len() && module.iter().zip(&place).all(|(own, name)| own == name)
}

/// Modules in files of their own that are compiled for tests only.
fn test_files(files: &[Read]) -> Vec<Vec<String>> {
    files
        .iter()
        .flat_map(|read| read.tokens.windows(3))
        .filter(|three| three[0].test && three[0].text == "mod" && three[2].text == ";")
        .map(|three| {
            let mut module = three[1].module.clone();
            module.push(three[1].text.clone());
            module
        })
        .collect()
}
