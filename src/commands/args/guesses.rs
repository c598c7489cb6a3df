//! What is meant by a word that a user of other programs tries first. The similar names that clap finds are
//! shown only if they differ by a letter or two, or begin with the word: `lock` is not `doctor`.

use clap::{
    Command,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Words that other programs have for a command of this one.
const COMMANDS: [(&str, &[&str]); 15] = [
    ("pipeline", &["all", "run"]),
    ("install", &["add", "setup"]),
    ("fetch", &["download", "get", "pull"]),
    ("build", &["bdist", "dist", "make", "pack", "package", "wheel", "wheels"]),
    ("check", &["audit", "lint", "test", "validate", "verify"]),
    ("index", &["html", "pages", "simple"]),
    ("upload", &["deploy", "publish", "push"]),
    ("summary", &["describe", "info", "show"]),
    ("list", &["ls", "releases", "search", "versions"]),
    ("promote", &["release", "retag", "sign"]),
    ("framework tie", &["repair", "tie"]),
    ("diff", &["compare"]),
    ("targets", &["arch", "detect", "families", "gpu", "gpus"]),
    ("doctor", &["debug", "diagnose", "env", "status"]),
    ("deps", &["lock", "mirror"]),
];

/// Flags of other programs, and what is meant. The first one that the command has is shown.
const FLAGS: [(&str, &[&str]); 22] = [
    ("-t", &["--target", "--amdgpu-targets", "--require-targets"]),
    ("--arch", &["--target", "--amdgpu-targets", "--require-targets"]),
    ("--device", &["--target", "--amdgpu-targets", "--require-targets"]),
    ("--gpu", &["--target", "--amdgpu-targets", "--require-targets"]),
    ("--gpus", &["--target", "--amdgpu-targets", "--require-targets"]),
    ("--gfx", &["--target", "--amdgpu-targets", "--require-targets"]),
    ("--strict", &["--fail-on warning"]),
    ("--prerelease", &["--release-type prerelease"]),
    ("--nightly", &["--release-type nightly"]),
    ("--env", &["--venv"]),
    ("--environment", &["--venv"]),
    ("--prefix", &["--venv"]),
    ("--force", &["--overwrite", "--reinstall", "--clean"]),
    ("--force-reinstall", &["--reinstall"]),
    ("--upgrade", &["--reinstall"]),
    ("--artifacts", &["--artifact-dir", "--input-dir"]),
    ("--out", &["--output-dir", "--into"]),
    ("-o", &["--into", "--output-dir"]),
    ("--dir", &["--output-dir", "--into"]),
    ("--dest", &["--output-dir", "--into"]),
    ("--list", &["--find"]),
    ("--silent", &["--quiet"]),
];

/// Flags of pip for an address, which is the argument of our commands.
const ADDRESSES: [&str; 5] =
    ["--extra-index-url", "--find-links", "--from", "--index", "--index-url"];

/// Puts what is meant into an error of clap, in place of names that are not similar enough.
pub(crate) fn advise(mut error: clap::Error, command: &Command, root: &Command) -> clap::Error {
    let (word, tip) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text_of(&error, ContextKind::InvalidSubcommand);
            let tip = meant_command(&word);
            (word, tip)
        }
        ErrorKind::UnknownArgument => {
            let flag = text_of(&error, ContextKind::InvalidArg);
            let tip = meant_flag(&flag, command, root);
            (flag, tip)
        }
        _ => return error,
    };
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg] {
        if let Some(suggested) = error.remove(kind)
            && tip.is_none()
            && let Some(name) = nearest(&word, &suggested)
        {
            error.insert(kind, ContextValue::String(name));
        }
    }
    // The usage line of clap has the name that it suggested, also where this is not what was meant.
    let usage = command.clone().render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    if let Some(tip) = tip
        && error.get(ContextKind::Suggested).is_none()
    {
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

fn meant_command(word: &str) -> Option<String> {
    let word = word.to_ascii_lowercase();
    let (command, _) = COMMANDS.iter().find(|(_, words)| words.contains(&word.as_str()))?;
    Some(format!("run `rocwheel {command}`"))
}

fn meant_flag(flag: &str, command: &Command, root: &Command) -> Option<String> {
    if ADDRESSES.contains(&flag) && command.get_positionals().next().is_some() {
        return Some("pass the address as the argument, without a flag".to_owned());
    }
    let (_, meant) = FLAGS.iter().find(|(guessed, _)| *guessed == flag)?;
    let has = |meant: &&&str| {
        let name = meant.split(' ').next().and_then(|name| name.strip_prefix("--"));
        let mut arguments = command.get_arguments().chain(root.get_arguments());
        arguments.any(|argument| argument.get_long() == name && !argument.is_hide_set())
    };
    meant.iter().find(has).map(|flag| format!("pass `{flag}`"))
}

/// The suggested name that differs least from a word, by at most two letters, or begins with it.
fn nearest(word: &str, suggested: &ContextValue) -> Option<String> {
    let names: &[String] = match suggested {
        ContextValue::String(name) => std::slice::from_ref(name),
        ContextValue::Strings(names) => names,
        _ => return None,
    };
    let distance = |name: &&String| strsim::damerau_levenshtein(word, name);
    let is_near = |name: &&String| {
        let begins = word.len() > "--a".len() && name.starts_with(word);
        begins || distance(name) <= 2
    };
    names.iter().filter(is_near).min_by_key(distance).cloned()
}

fn text_of(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::{Cli, args};

    /// What is said about a command line, without the first line and the usage.
    fn said(line: &str) -> String {
        let mut root = Cli::command();
        root.build();
        let words = line.split(' ');
        let name = words.clone().next().unwrap_or_default();
        let command = root.find_subcommand(name).unwrap_or(&root);
        let line_of_process: Vec<_> =
            ["rocwheel"].into_iter().chain(words).map(Into::into).collect();
        let refusal = args::parse::<Cli>(&line_of_process).unwrap_err();
        let text = advise(refusal, command, &root).to_string();
        let tips = text.lines().filter_map(|line| line.strip_prefix("  tip: "));
        format!("{line}: {}", tips.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn words_of_other_programs_lead_to_what_is_meant() {
        let lines = [
            "verify P",
            "ls",
            "publish P",
            "download",
            "release P",
            "gpu",
            "env",
            "wheel",
            "frobnicate",
            "pipelin",
            "fetch --arch gfx942",
            "fetch --dir D",
            "fetch --list",
            "check P --gpu gfx942",
            "promote P -o D",
            "upload P --dest D",
            "install P -t gfx942",
            "install P --gpu gfx942",
            "install P --index-url U",
            "install P --upgrade",
            "install P --prefix V",
            "install P --dryrun",
            "check P --strict",
            "check P --fail",
            "upload P --force",
            "index P --force",
            "build --out D",
            "pipeline --output D",
            "pipeline --run_id 1",
            "diff P Q --frobnicate",
        ];
        insta::assert_snapshot!(lines.map(said).join("\n"));
    }

    #[test]
    fn what_is_meant_exists() {
        let root = Cli::command();
        for (name, words) in COMMANDS {
            assert!(root.find_subcommand(name.split(' ').next().unwrap()).is_some(), "{name}");
            for word in words {
                assert!(root.find_subcommand(word).is_none(), "`{word}` is a command");
            }
        }
        for (guess, meant) in FLAGS {
            for flag in meant {
                let name = flag.split(' ').next().and_then(|name| name.strip_prefix("--"));
                let commands = root.get_subcommands().chain([&root]);
                let mut flags = commands.flat_map(Command::get_arguments);
                assert!(flags.any(|it| it.get_long() == name), "`{guess}`: no `{flag}`");
            }
        }
    }
}
