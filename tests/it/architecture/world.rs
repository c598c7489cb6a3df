//! Who may reach out of the process, and how that looks in a source.

use super::{Path, Source, Token};

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
    tests_too: bool,
}

const NONE: May = May {
    what: "",
    paths: &[],
    except: &[],
    macros: &[],
    calls: &[],
    methods: &[],
    who: &[],
    tests_too: true,
};

const ADVICE: &str = "take the value as an argument, or see who may in architecture/world.rs";

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
        methods: &[
            "try_exists",
            "canonicalize",
            "read_dir",
            "read_link",
            "symlink_metadata",
        ],
        who: &[
            "atomic",
            "io",
            "artifact/input",
            "spool",
            "artifact/output",
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
            "framework/read",
            "gpu",
            "install/act",
            "install/environment",
            "install/site_packages",
            "deps/mirror",
            "deps/update",
            "framework/split",
            "promote/frameworks",
            "promote/observe",
            "promote/write",
            "commands",
        ],
        ..NONE
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
        who: &["store/s3", "store/http", "github"],
        tests_too: false,
        ..NONE
    },
    May {
        what: "prints",
        paths: &[
            "io::stdout",
            "io::stderr",
            "tokio::io::stdout",
            "tokio::io::stderr",
        ],
        macros: &["print", "println", "eprint", "eprintln", "dbg"],
        calls: &["stdout", "stderr"],
        who: &["console"],
        tests_too: false,
        ..NONE
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
        who: &["commands/args", "console"],
        ..NONE
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
        who: &["parallel"],
        ..NONE
    },
    May {
        what: "looks at the machine",
        paths: &["thread::available_parallelism", "IsTerminal"],
        calls: &["available_parallelism"],
        who: &["console", "commands"],
        ..NONE
    },
    May {
        what: "starts or ends a process",
        paths: &["process::Command", "process::exit", "process::abort"],
        // `gh auth token` is where people keep their login, and `git` knows the commit.
        who: &[
            "commands/args",
            "commands/version",
            "atomic/lock",
            "install/installer",
            "console",
        ],
        ..NONE
    },
];

/// Few may reach out of the process.
pub(super) fn world(files: &[Source]) -> Vec<String> {
    // Modules in files of their own that are compiled for tests only.
    let mut test_files = Vec::new();
    for three in files.iter().flat_map(|file| file.tokens.windows(3)) {
        if three[0].is_test && three[0].text == "mod" && three[2].text == ";" {
            test_files.push(format!("{}/{}", three[1].module, three[1].text));
        }
    }
    let mut found = Vec::new();
    for file in files {
        let is_test = test_files.iter().any(|test| is_in(&file.module, test));
        let others = |may: &&May| !may.who.iter().any(|who| is_in(&file.module, who));
        for may in MAY.iter().filter(others) {
            let excused = |test: bool| (test || is_test) && may.tests_too;
            let paths = file.paths.iter().filter(|path| !excused(path.is_test));
            let reaching = paths.filter(|path| may.is_reached_by(path));
            let reaching = reaching.map(|path| (path.line, path.segments.join("::")));
            let tokens = file.tokens.iter().enumerate();
            let bare = tokens.filter(|(at, token)| {
                !excused(token.is_test) && may.is_named_at(&file.tokens, *at)
            });
            let bare = bare.map(|(_, token)| (token.line, token.text.to_owned()));
            found.extend(reaching.chain(bare).map(|(line, how)| {
                let what = format!("{} with `{how}`", may.what);
                file.violation(line, &what, ADVICE)
            }));
        }
    }
    found
}

impl May {
    fn is_reached_by(&self, path: &Path) -> bool {
        let path = path.segments.join("::");
        // Most paths have none of the names: only the others are compared from end to end.
        let has = |names: &&str| {
            path.contains(names) && format!("::{path}::").contains(&format!("::{names}::"))
        };
        self.paths.iter().any(has) && !self.except.iter().any(has)
    }

    /// A macro, a function or a whole crate under its bare name.
    fn is_named_at(&self, tokens: &[Token], at: usize) -> bool {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let name = text(at);
        let before = if at == 0 { "" } else { text(at - 1) };
        let free = !matches!(before, "." | "::" | "fn");
        (self.macros.contains(&name) && text(at + 1) == "!" && text(at + 2) != "=")
            || (self.calls.contains(&name) && text(at + 1) == "(" && free)
            || (self.methods.contains(&name) && text(at + 1) == "(" && before == ".")
            || (self.paths.contains(&name) && before == "use" && text(at + 1) != "::")
    }
}

fn is_in(module: &str, place: &str) -> bool {
    format!("{module}/").starts_with(&format!("{place}/"))
}
