//! action.yml and the workflows: what they offer, and what they do when `act` runs them.

mod binary;
mod dependencies;
mod frameworks;
mod gate;
pub(crate) mod inputs;
mod installs;
mod lint;
mod pin;
mod place;
mod promotion;
mod real_run;
mod release;
mod runner;
mod spread;
mod steps;
mod workflows;
