//! A package set at a place, near or far: its files, what they say, and the index of them.

mod address;
mod directory;
mod facts;
mod indexing;
mod known;
mod place;
mod ranged;
mod read;
mod shelf;
mod stale;
mod write;
mod yank;

pub use self::{
    address::local_urls,
    directory::LocalSet,
    indexing::{IndexOptions, Indexed, index},
    place::{IndexPlace, Site},
    shelf::{Directory, Prefix},
    write::{ASK_FIRST, Act, Change, FOREVER, Mode},
    yank::YankList,
};
