//! A title in a bucket, put there by `fullbore publish` or copied from a library.

use catalog::{RECORD, Record, TitlePath, document_key, object_key};
use s3::{S3Bucket, S3Error};

use super::publish::Publication;
use crate::state_folder::DOCUMENT_BYTES_MAX;

/// Reads the record and the manifests of a title in the bucket at `origin`, and checks that all its files exist. It does not read the other files:
/// nodes verify every block that they copy.
///
/// # Errors
/// The fault, and the remedy.
pub async fn read_title_in_bucket(origin: &str, path: &TitlePath) -> Result<Publication, String> {
    let text = |error: S3Error| error.to_string();
    let bucket = S3Bucket::open(origin).map_err(text)?;
    let again = format!("run \"fullbore publish {path} --library DIR --to {origin}\"");
    let read = bucket.get(&object_key(path, RECORD), DOCUMENT_BYTES_MAX as usize).await;
    let bytes = read.map_err(|error| match error {
        S3Error::Absent(_) => format!("there is no title {path} at {origin}: {again} first"),
        error => error.to_string(),
    })?;
    let record = Record::parse(&bytes)
        .map_err(|why| format!("{RECORD} of {path} at {origin} cannot be used: {why}: {again}"))?;
    // The manifests are read below.
    for file in record.files.iter().filter(|file| file.path.contains('/')) {
        let found = bucket.size(&object_key(path, &file.path)).await.map_err(text)?;
        if found != Some(file.bytes) {
            let found = found.map_or("is missing".to_owned(), |found| format!("has {found} bytes"));
            let (file, bytes) = (&file.path, file.bytes);
            return Err(format!(
                "{file} of {path}, which has {bytes} bytes, {found} at {origin}: {again}"
            ));
        }
    }
    Ok(Publication {
        path: path.clone(),
        origin: origin.to_owned(),
        at_once: false,
        series: None,
        record: bytes.to_vec(),
        hls: document(&bucket, path, &record, &record.hls).await?,
        dash: document(&bucket, path, &record, &record.dash).await?,
    })
}

async fn document(
    bucket: &S3Bucket,
    title: &TitlePath,
    record: &Record,
    path: &str,
) -> Result<Vec<u8>, String> {
    let bytes_max = DOCUMENT_BYTES_MAX as usize;
    let read = match bucket.get(&document_key(&record.sha256, path), bytes_max).await {
        Err(S3Error::Absent(_) | S3Error::Refused(_)) => {
            bucket.get(&object_key(title, path), bytes_max).await
        }
        read => read,
    };
    read.map(|bytes| bytes.to_vec()).map_err(|error| error.to_string())
}
