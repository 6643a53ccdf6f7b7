//! A server in this process, viewers, files with known bytes, and a program that writes unnoticed.

pub(crate) mod content;
pub(crate) mod library;
pub(crate) mod mapped_writer;
pub(crate) mod own_disk;
pub(crate) mod served;
pub(crate) mod viewer;
