//! Which form of a text file a viewer gets: the file itself, or one of the compressed ones next to it, `NAME.br` and `NAME.gz`.
//!
//! `fullbore ingest` makes them. The names are those of nginx's `gzip_static` and `brotli_static`, so titles that were made by other tools or by
//! hand work as well. A form is another representation of the file, with a length and an entity tag of its own, which come from its own file, so
//! ranges and conditions refer to its bytes. In everything else the request is one for the file: its path decides about tokens, header rules, media
//! type and figures. A form of another version of the file is never sent ([`disk::Files::open_form`]).
//!
//! Cost: a segment never gets here, because one comparison of its media type tells that it is no text. A text file costs one look-up for each form
//! that the viewer prefers. The open form is remembered like every open file, and a missing one for a second.
//!
//! Length reveals nothing secret (BREACH): forms are compressed once, from files that every viewer of the title gets alike. Nothing of a request,
//! such as the token in its path, is part of what is compressed.

use crate::libraries::Library;
use disk::{File, OpenError};
use fullbore_http::{Coding, FileForm, Request, preferred_codings};
use std::rc::Rc;

/// The form of `file`, a text file at `path`, that the viewer gets, and the file to send.
pub(super) async fn choose(
    library: &Library,
    request: &Request,
    path: &[u8],
    file: &Rc<File>,
) -> (Rc<File>, FileForm) {
    for coding in preferred_codings(request) {
        let suffix = suffix(coding);
        match library.files.open_form(file, path, suffix).await {
            Ok(Some(form)) => return (form, FileForm::Coded(coding)),
            // The file itself may be readable.
            Err(OpenError::Io(_)) => {
                let path = [path, suffix.as_bytes()].concat();
                library.note_failure(Some(file.folder()), Some(&path));
            }
            Ok(None) | Err(_) => {}
        }
    }
    (Rc::clone(file), FileForm::Plain)
}

/// The end of the names of forms in this coding.
fn suffix(coding: Coding) -> &'static str {
    match coding {
        Coding::Brotli => catalog::BROTLI,
        Coding::Gzip => catalog::GZIP,
    }
}
