//! Commands that are stopped at any moment.

use std::{
    process::{Command, ExitStatus, Stdio},
    thread::sleep,
    time::Instant,
};

use super::long;

/// How often a command is stopped, in short and in long.
const ROUNDS: [u64; 2] = [8, 50];

/// A command that was stopped, or that had ended before.
pub(crate) struct Killed {
    /// The number that was given to the command.
    pub(crate) round: u64,
    /// By Ctrl-C, which leaves time to clear away.
    pub(crate) is_interrupted: bool,
    pub(crate) status: ExitStatus,
}

impl Killed {
    /// Whether a command that was interrupted says so, or had ended, or could not listen yet.
    #[track_caller]
    pub(crate) fn assert_code(&self) {
        let code = self.status.code();
        let is_usual = matches!(code, None | Some(0 | 130));
        assert!(!self.is_interrupted || is_usual, "{self}");
    }
}

impl std::fmt::Display for Killed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let signal = if self.is_interrupted { "INT" } else { "KILL" };
        write!(formatter, "round {}: {signal}, {}", self.round, self.status)
    }
}

/// Runs a command to its end, to know how long it takes; and then again and again, stopped at moments all
/// over that time by SIGKILL. `judge` sees what each of these has left.
///
/// `command` gets the number of the round, and sets up what the command needs.
pub(crate) fn killed_at_every_step(
    command: impl FnMut(u64) -> Command,
    judge: impl FnMut(&Killed),
) {
    stopped_at_every_step(&["-KILL"], command, judge);
}

/// The same with every other command stopped by Ctrl-C.
pub(crate) fn killed_or_interrupted_at_every_step(
    command: impl FnMut(u64) -> Command,
    judge: impl FnMut(&Killed),
) {
    stopped_at_every_step(&["-KILL", "-INT"], command, judge);
}

fn stopped_at_every_step(
    signals: &[&str],
    mut command: impl FnMut(u64) -> Command,
    mut judge: impl FnMut(&Killed),
) {
    let mut whole = command(0);
    let begun = Instant::now();
    let output = whole.output().unwrap();
    let time = begun.elapsed();
    assert!(output.status.success(), "{whole:?}: {output:?}");
    let rounds = long::rounds(ROUNDS[0], ROUNDS[1]);
    let seeds = long::seeds(rounds, rounds);
    for (round, seed) in (1..=rounds).zip(seeds) {
        let mut command = command(round);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Somewhere in the part of the time that is this round's.
        let within = u32::try_from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap();
        let part = f64::from(within) / f64::from(u32::MAX);
        #[expect(clippy::cast_precision_loss, reason = "few rounds")]
        let moment = ((round - 1) as f64 + part) / rounds as f64;
        sleep(time.mul_f64(moment));
        let signal = signals[usize::try_from(round).unwrap() % signals.len()];
        let pid = child.id().to_string();
        let mut kill = Command::new("kill");
        // It may have ended by itself.
        kill.args([signal, &pid]).stderr(Stdio::null());
        kill.status().unwrap();
        judge(&Killed { round, is_interrupted: signal == "-INT", status: child.wait().unwrap() });
    }
}
