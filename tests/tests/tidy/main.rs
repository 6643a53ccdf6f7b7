//! Tests the rules of the repository: where `unsafe` may be, which crate may use which, how long a line, a function and
//! a file may be, what a name may mean, that no test asserts a time, sleeps without a reason or hides that it is skipped, that documents
//! refer only to what exists and are in plain English, and that a purge of the package removes the files that the program creates.
//!
//! Each rule is a function from the texts of files to breaches, one line each. One test applies it to the whole
//! repository; another one shows that it finds a planted example. To change a rule, change it here and in
//! CONTRIBUTING.md, in one commit.
//!
//! A message says what to do. Most often that is one row in a table at the top of the rule's module: [`arrows`] for crates,
//! [`copies`], [`unsafe_code`], [`names`], [`overflow`], [`shape`], [`sleeps`] and [`times`] for exceptions, each with its reason.

mod arrows;
mod copies;
mod decisions;
mod documents;
mod english;
mod features;
mod lab;
mod names;
mod overflow;
mod package;
mod promises;
mod run;
mod rust;
mod shape;
mod skips;
mod sleeps;
mod times;
mod tree;
mod unsafe_code;

/// Fails with all breaches of a rule, so that they can be fixed in one go.
fn none(breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{} breaches:\n{}\n", breaches.len(), breaches.join("\n"));
}

/// Checks that a rule finds what was planted: as many breaches as texts, and each breach names one of them.
fn found(breaches: &[String], planted: &[&str]) {
    assert_eq!(breaches.len(), planted.len(), "{breaches:#?}");
    for (breach, planted) in breaches.iter().zip(planted) {
        assert!(breach.contains(planted), "{breach}\ndoes not name {planted}");
    }
}
