use super::*;

fn parse(text: &str) -> Result<Recipe, Error> {
    Recipe::parse(Path::new("experiments/x.toml"), text, Registry::stock())
}

/// A sweep of two models, with more lines.
fn with(lines: &str) -> String {
    format!(
        "about = \"x\"\n[[sweep]]\nmodels = [\"a\", \"b\"]\ntasks = [\"chain\", \"gsm8k\"]\nsamplers = [\"topk:{{1,2}}\"]\n{lines}\n"
    )
}

#[test]
fn a_recipe_is_a_product_in_order() {
    let recipe = parse(&with("lengths = [32, 64]\nlimit = 100\nlimits = { chain = 40 }")).unwrap();
    assert_eq!((recipe.name.as_str(), recipe.points.len()), ("x", 16));
    let short = |point: &EvalSpec| {
        format!(
            "{} {} {} {} {}",
            point.model,
            point.task,
            point.sampler,
            point.run.fixed_length().unwrap().unwrap(),
            point.questions.limit.unwrap()
        )
    };
    let points: Vec<String> = recipe.points.iter().map(short).collect();
    assert_eq!(points[..3], ["a chain topk:1 32 40", "a chain topk:1 64 40", "a chain topk:2 32 40"]);
    assert_eq!((points[4].as_str(), points[15].as_str()), ("a gsm8k topk:1 32 100", "b gsm8k topk:2 64 100"));
}

#[test]
fn a_point_that_two_sweeps_name_is_one() {
    let more = "[[sweep]]\nmodels = [\"b\"]\ntasks = [\"chain\"]\nsamplers = [\"topk:2\", \"topk:4\"]";
    assert_eq!(parse(&with(more)).unwrap().points.len(), 8 + 1);
}

#[test]
fn a_point_survives_being_written() {
    let text = with("wrapper = \"dream\"\nblock = 32\nsplit = \"validation\"\ndtype = \"q8_0\"");
    for point in parse(&text).unwrap().points {
        let written = serde_json::to_string(&point).unwrap();
        let read = serde_json::from_str::<EvalSpec<String>>(&written).unwrap();
        assert_eq!(read.resolve(Registry::stock()).unwrap(), point, "{written}");
    }
}

/// Whatever `generate` can be told, a recipe can.
#[test]
fn every_option_of_a_run_is_a_key() {
    let keys = "length = 24\ntop_p = 0.9\ntop_k = 5\ncfg = 0.5\nlogits_eos_inf = true\nconfidence_eos_eot_inf = true\n\
                attention_of_source = true\nmax_nfe = 3\nchat = true\nbos = true\nstop = [\"x\"]\ndtype = \"q8_0\"\ndevice = \"cpu\"\n\
                block = 8\ntemperature = 0.5\nseed = 7\nmin_tokens = 2\ncollapse = false\nsuppress = [3]\ncompanion = \"a causal model\"";
    let run = &parse(&with(keys)).unwrap().points[0].run;
    assert_eq!((run.top_p, run.top_k, run.cfg, run.max_nfe), (Some(0.9), Some(5), 0.5, Some(3)));
    assert!(run.logits_eos_inf && run.confidence_eos_eot_inf && run.attention_of_source && run.chat);
    assert_eq!((run.bos, run.stop.as_slice(), run.length), (Some(true), ["x".to_owned()].as_slice(), Some(24.into())));
    assert_eq!(run.companion.as_deref(), Some("a causal model"));
    // No cache is right under guidance.
    let cache = "block = 8\ncache = \"dual\"";
    assert_eq!(parse(&with(cache)).unwrap().points[0].run.cache, cofill::Cache::Dual);
    assert!(parse(&with(&format!("{keys}\ncache = \"dual\""))).unwrap_err().to_string().contains("guidance"));
    let keys = format!("{keys}\n{cache}");
    // One text obeys one constraint, so these are written apart.
    let constraints = ["schema = '{\"b\": 1, \"a\": 2}'", "regex = 'a+'", "choice = ['a', 'b']"];
    let [schema, regex, choice] = constraints.map(|line| parse(&with(line)).unwrap().points[0].run.clone());
    assert_eq!(schema.schema.map(|schema| schema.text().to_owned()).as_deref(), Some("{\"b\":1,\"a\":2}"));
    assert_eq!((regex.regex.as_deref(), choice.choice.len()), (Some("a+"), 2));
    assert!(parse(&with(&constraints.join("\n"))).unwrap_err().to_string().contains("schema and regex and choice"));
    let keys = format!("{keys}\n{}", constraints.join("\n"));
    assert_eq!((run.min_tokens, run.collapse, run.suppress.as_slice()), (Some(2), false, [3].as_slice()));
    // Only an answer that grows has a limit, and those of a recipe are all of one size.
    for key in super::keys::<RunOptions>().into_iter().filter(|key| key != "max_length") {
        assert!(keys.contains(&format!("{key} = ")), "`{key}` is an option that this test leaves out");
    }
}

#[test]
fn every_way_a_recipe_can_be_wrong() {
    let cases = [
        (
            "samplrs = []",
            "line 6, `samplrs = []`: unknown key `samplrs` (did you mean `samplers`?); known are `models`",
        ),
        ("limt = 3", "did you mean `limit`?"),
        ("length = \"auto\"", "length must be a number of positions"),
        ("length = \"auto\"\nmax_length = 64", "length must be a number of positions"),
        ("length = 9\nmax_length = 64", "max_length must be left out"),
        ("collapse = true", "collapse must be left out, since it changes how many forwards an answer takes"),
        ("limit = 0", "line 6, `limit = 0`: "),
        ("limit = \"all\"", "line 6, `limit = \"all\"`: invalid type: string \"all\""),
        ("split = \"tset\"", "unknown split `tset` (did you mean `test`?); expected one of `train`"),
        ("wrapper = \"gemma\"", "unknown wrapper `gemma`"),
        ("math = \"maple\"", "expected `native` or `sympy`"),
        ("limits = { sums = 4 }", "line 6, `limits = { sums = 4 }`: `limits` names `sums`, which is not among `tasks`"),
        ("temperature = -1.0", "line 6, `temperature = -1.0`: temperature"),
        ("top_p = 2.0", "line 6, `top_p = 2.0`: top_p"),
        ("dtype = \"f99\"", "line 6, `dtype = \"f99\"`: "),
        ("device = \"abacus\"", "line 6, `device = \"abacus\"`: "),
        ("logits_eos_inf = 1", "line 6, `logits_eos_inf = 1`: invalid type"),
        ("length = 8\nlengths = [8]", "`length` and `lengths` are both given"),
        (
            "[[sweep]]\nmodels = []\ntasks = [\"sums\"]\nsamplers = [\"topk:1\"]",
            "line 7, `models = []`: `models` is empty",
        ),
        ("[[sweep]]\nmodels = [\"a\"]", "line 6, `[[sweep]]`: missing key `tasks`; add tasks = [\"..\"]"),
        (
            "[[sweep]]\nmodels = [\"a\"]\ntasks = [\"riddles\"]\nsamplers = [\"topk:1\"]",
            "line 8, `tasks = [\"riddles\"]`: unknown task `riddles`",
        ),
        ("[[sweep]]\nmodels = [\"a\"]\ntasks = [\"sums\"]\nsamplers = [\"eb:{1,x}\"]", "line 9"),
        ("[other]", "line 6, `[other]`: unknown key `other`; known are `about`, [[sweep]]"),
        ("block = 0", "line 6, `block = 0`: block"),
        ("seed = 1\ncfg = -1.0", "line 7, `cfg = -1.0`: cfg"),
        ("regex = 'a'\nchoice = ['b']", "line 6, `regex = 'a'`: constraint"),
        ("math = \"sympy\"", "line 6, `math = \"sympy\"`: math is for math500"),
        ("unsafe_exec = true", "line 6, `unsafe_exec = true`: unsafe_exec is for tasks that run generated programs"),
        (
            "allow_command = true",
            "line 6, `allow_command = true`: a recipe cannot allow commands; give --allow-command",
        ),
        ("split = test", "line 6, `split = test`: `test` is a text, and texts are written in quotes: \"test\""),
        (
            "[[sweep]]\nmodels = [tiny-llada]\ntasks = [\"sums\"]",
            "line 7, `models = [tiny-llada]`: `tiny-llada` is a text, and texts are written in quotes: \"tiny-llada\"",
        ),
        ("[[sweep]]\nmodels = [\"a\"]\ntasks = [\"chian\"]\nsamplers = [\"topk:1\"]", "did you mean `chain`?"),
        (
            "[[sweep]]\nmodels = [\"a\"]\ntasks = [\"x/t.toml\", \"y/t.toml\"]\nsamplers = [\"topk:1\"]",
            "line 8, `tasks = [\"x/t.toml\", \"y/t.toml\"]`: `experiments/x/t.toml` and `experiments/y/t.toml` are both called `t`",
        ),
        ("lengths = [32,", "line "),
    ];
    for (lines, said) in cases {
        let error = parse(&with(lines)).unwrap_err().to_string();
        assert!(error.starts_with("`experiments/x.toml`, ") && error.contains(said), "{lines}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(parse("").unwrap_err().to_string().contains("add [[sweep]]"));
    assert_eq!(parse(&with("").replace("about = \"x\"\n", "")).unwrap().about, "", "what it shows need not be said");
    assert!(parse("about = \"x\"").unwrap_err().to_string().contains("add [[sweep]]"));
    let error = Recipe::read(Path::new("nowhere.toml")).unwrap_err().to_string();
    assert!(error.contains("cannot read the recipe `nowhere.toml`"), "{error}");
}

#[test]
fn task_files_are_meant_from_the_recipe() {
    let text = with("limits = { adds = 3 }").replace("\"gsm8k\"", "\"own/adds.toml\"");
    let recipe = parse(&text).unwrap();
    let point = recipe.points.iter().find(|point| point.task.name() == "adds").unwrap();
    assert_eq!(point.task.to_string(), "experiments/own/adds.toml");
    assert_eq!(point.questions.limit.unwrap().get(), 3);
    let written = serde_json::to_string(point).unwrap();
    let read: EvalSpec<String> = serde_json::from_str(&written).unwrap();
    assert_eq!(read.resolve(Registry::stock()).unwrap(), *point, "{written}");
}

/// Those that come with the repository, and how much each of them is.
#[test]
fn the_papers_recipes() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments"));
    let points = |name: &str| Recipe::read(&folder.join(name)).unwrap().points;
    // Two models, four tasks; EB 8 + 8, Fast-dLLM 7 + 8, Top-k 5 + 5.
    assert_eq!(points("main.toml").len(), 2 * 4 * (16 + 15 + 10));
    // KLASS 4, DAPD 5.
    assert_eq!(points("klass-dapd.toml").len(), 2 * 4 * (4 + 5));
    // Six settings: without, and six strengths.
    assert_eq!(points("alpha.toml").len(), 6 * 7);
    assert_eq!(points("uncertainty.toml").len(), 2);
    assert_eq!(points("attention-source.toml").len(), 4);
    // Five tasks instead of four; of the ablations, what is not in the sweep already: 30 strengths, a weight, two layers.
    assert_eq!(points("mini.toml").len(), 2 * 5 * (16 + 15 + 10 + 9) + 30 + 1 + 2);
    // Sequential; twelve operating points without and with ADAS; six of them at three more strengths.
    assert_eq!(points("cards.toml").len(), 2 * 5 * (1 + 24 + 18));
    // Two models: Top-k 4 and two strengths, Fast-dLLM 3 + 4, EB 3 + 3, and ten along paths.
    assert_eq!(points("real-weights.toml").len(), 2 * (12 + 7 + 6 + 10));
    // A head: five bounds and two discounts; without training: ten; a companion: four.
    assert_eq!(points("learned.toml").len(), 2 * 5 * (7 + 10 + 4));
    // Three rules at fourteen settings, without, with ADAS, along paths, calibrated; parts and controls at six; rivals.
    assert_eq!(points("contest.toml").len(), 2 * 5 * (14 * 4 + 6 * (3 + 4) + 23 + 5 + 3));
    let known = [
        "learned",
        "main",
        "klass-dapd",
        "alpha",
        "uncertainty",
        "attention-source",
        "mini",
        "cards",
        "real-weights",
        "contest",
    ];
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let recipe = Recipe::read(&path).unwrap();
        assert!(known.contains(&recipe.name.as_str()), "{} has no test", path.display());
    }
}
