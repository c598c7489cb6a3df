//! GitHub's API, as an installation of one's own has it. Tests of `github` ask a GitHub for everything else.

mod enterprise;
