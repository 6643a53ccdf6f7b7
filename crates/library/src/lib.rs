//! The video library as a viewer sees it: which titles a folder holds and where each is played from, and a sample for those who
//! have none at hand.
//!
//! It reads folder listings and names, never what is in the files: what a file contains is the player's business. It follows no
//! symbolic link, because the server would refuse those that lead out of the library.
//!
//! Read first: [`titles()`], then [`sample::ensure`].

pub mod sample;
mod titles;
mod url;

pub use titles::{Form, Stream, TITLES_MAX, Title, titles};
pub use url::encode_path;
