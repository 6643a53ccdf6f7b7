use super::*;

#[test]
fn files_are_sorted_so_that_they_are_found() {
    assert!(FILES.is_sorted_by(|a, b| a.path < b.path));
    for one in FILES.iter().filter(|file| file.path.starts_with("assets/")) {
        assert!(std::ptr::eq(file(one.path.as_bytes()).unwrap(), one));
    }
    for path in ["", "assets/", "shelf.html", "assets/../shelf.html", "assets"] {
        assert!(file(path.as_bytes()).is_none(), "{path}");
    }
}

#[test]
fn the_base_leads_from_the_pages_address_to_the_servers_own_folder() {
    for page in [Page::Shelf, Page::Watch, Page::Dashboard, Page::Fleet] {
        if built(page.name().as_bytes()).is_none() {
            fullbore_tests::tool::skip(&format!("{} is not built; run ./run build", page.name()));
            continue;
        }
        for (depth, base) in
            [(None, "./-/"), (Some(0), "./"), (Some(1), "../"), (Some(2), "../../")]
        {
            let text = page.fill_in(depth).to_string();
            assert!(
                text.contains(&format!("<base href=\"{base}\"")),
                "{page:?} at {depth:?}: {text}"
            );
        }
    }
}

#[test]
fn each_place_of_a_page_has_an_entity_tag_of_its_own() {
    let tags: Vec<_> = [None, Some(0), Some(1)].map(|depth| Page::Watch.fill_in(depth).etag).into();
    assert!(tags.iter().all(|tag| tag.starts_with('"') && tag.ends_with('"')));
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
}

#[test]
fn metadata_ends_the_head_and_changes_the_entity_tag() {
    let page = |text: &str| Page::Watch.fill_in(Some(1)).with_metadata(text.to_owned());
    let (plain, one, other) = (page(""), page("<meta content=\"1\" />"), page("<meta />"));
    assert_eq!(plain, Page::Watch.fill_in(Some(1)));
    if plain.after_head.is_empty() {
        fullbore_tests::tool::skip("this build has no pages; run ./run build");
        return;
    }
    assert!(one.to_string().contains("<meta content=\"1\" /></head>"), "{one}");
    assert!(plain.etag != one.etag && one.etag != other.etag && one.etag.ends_with('"'));
}

#[test]
fn a_built_page_has_nothing_that_the_policy_forbids() {
    for page in [Page::Shelf, Page::Watch, Page::Dashboard, Page::Fleet] {
        let text = page.fill_in(None).to_string();
        for inline in ["<style", " style=", " onclick=", "javascript:", "http://", "https://"] {
            assert!(!text.contains(inline), "{page:?} has {inline}");
        }
        for script in text.split("<script").skip(1) {
            assert!(script.contains("src=\""), "{page:?} has a script written into it");
        }
    }
}

#[test]
fn what_is_compressed_is_so_for_clients_without_brotli_too() {
    for file in FILES.iter().filter(|file| file.brotli.is_some()) {
        let gzip = file.gzip.unwrap_or_else(|| panic!("{} has no gzip form", file.path));
        assert!(gzip.starts_with(&[0x1f, 0x8b]) && gzip.len() < file.bytes.len(), "{}", file.path);
    }
}
