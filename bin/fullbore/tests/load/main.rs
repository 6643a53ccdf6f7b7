//! `fullbore load` against the real server, and against servers that fail, each in its own way. No test asserts a time.

mod bad;
mod failures;
mod interrupt;
mod many;
mod patterns;
mod program;
mod titles;
