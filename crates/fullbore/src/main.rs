//! The fullbore command.
fn main() {}
