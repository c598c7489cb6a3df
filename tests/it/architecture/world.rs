//! Who may reach out of the process, and how that looks in a source.

/// Something outside the process.
pub(super) struct May {
    pub(super) what: &'static str,
    /// How code reaches it: a regular expression.
    pub(super) how: &'static str,
    /// What looks like it and is harmless.
    pub(super) except: &'static str,
    /// Modules, by their paths.
    pub(super) who: &'static str,
    pub(super) tests_too: bool,
}

const NEVER: &str = "$.";

pub(super) const MAY: [May; 8] = [
    May {
        what: "touches the disk",
        how: r"\b(fs_err|std::fs|tokio::fs|fs::read|fs::write|File::open|File::create|File::options|OpenOptions::new|unix::fs|windows::fs|tempfile)\b|\.(try_exists|canonicalize|read_dir|read_link|symlink_metadata)\(",
        except: NEVER,
        who: "atomic io artifact/input spool artifact/output artifact/split artifact/tree \
              artifact/unpack package/assemble package/split_tree fetch local \
              place framework/device_selector framework/read gpu install/act \
              install/environment install/installed_package install/into install/origin install/runtime install/site_packages deps/mirror deps/update \
              framework/split promote/frameworks promote/observe promote/write edit source commands",
        tests_too: true,
    },
    // `io::read_text` bounds what a file of somebody else can do.
    May {
        what: "reads a text file whole",
        how: r"\bread_to_string\(\w",
        except: NEVER,
        who: "atomic",
        tests_too: true,
    },
    May {
        what: "touches the network",
        how: r"\b(reqwest|aws_sdk_s3|aws_config|hyper|tokio::net|std::net|TcpStream|TcpListener|UdpSocket)\b",
        except: r"\bstd::net::(IpAddr|Ipv4Addr|Ipv6Addr)\b",
        who: "s3 http github",
        tests_too: false,
    },
    May {
        what: "prints",
        how: r"\bio::(stdout|stderr)\b|(^|[^.:\w])(stdout|stderr)\(|\b(print|println|eprint|eprintln|dbg)!\(",
        except: r"\bfn (stdout|stderr)\(",
        who: "console",
        tests_too: false,
    },
    May {
        what: "reads the environment",
        how: r"\bstd::env\b|\benv::(var|var_os|vars|args|args_os)\b",
        except: r"\bstd::env::consts\b",
        // Which variables an installer gets is decided where it is started.
        who: "commands/args console install/installer",
        tests_too: true,
    },
    May {
        what: "starts threads",
        how: r"\b(std::thread|thread::spawn|thread::scope|thread::Builder|rayon|spawn_blocking)\b",
        except: r"\bstd::thread::(available_parallelism|sleep)\b",
        who: "parallel console/shown_program",
        tests_too: true,
    },
    May {
        what: "looks at the machine",
        how: r"\b(available_parallelism|IsTerminal)\b",
        except: NEVER,
        who: "console commands",
        tests_too: true,
    },
    May {
        what: "starts or ends a process",
        how: r"\bprocess::(Command|exit|abort)\b",
        except: NEVER,
        // `gh auth token` is where people keep their login, and `git` knows the commit.
        who: "commands/args atomic/lock install/installer console",
        tests_too: true,
    },
];
