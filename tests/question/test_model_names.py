from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from memorymark.errors import UsageError
from memorymark.question import timm_names
from memorymark.question.model_names import read_factory, read_name, short_id

HERE = Path.cwd()


@pytest.mark.parametrize(
    ("name", "kind", "text", "short"),
    [
        ("bert", "catalog", "bert", "bert"),
        (" GPT2 ", "catalog", "GPT2", "gpt2"),
        ("openai-community/gpt2", "catalog", "openai-community/gpt2", "gpt2"),
        ("meta-llama/Llama-3.1-8B", "catalog", "meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("some-org/some.model-7B", "hub", "some-org/some.model-7B", "some-org/some.model-7B"),
        ("/models/mine", "path", "/models/mine", "mine"),
        ("/models/mine/config.json", "path", "/models/mine/config.json", "mine"),
        ("/models/tiny.json", "path", "/models/tiny.json", "tiny"),
        ("./mine", "path", f"{HERE}/mine", "mine"),
        ("../up/mine", "path", f"{HERE.parent}/up/mine", "mine"),
        ("runs/mine/", "path", f"{HERE}/runs/mine", "mine"),
        ("a/b/c", "path", f"{HERE}/a/b/c", "c"),
        ("config.json", "path", f"{HERE}/config.json", HERE.name),
        ("model.safetensors", "path", f"{HERE}/model.safetensors", "model.safetensors"),
        ("~/mine", "path", f"{Path.home()}/mine", "mine"),
        (".", "path", f"{HERE}", HERE.name),
        ("net.py:make", "factory", f"{HERE}/net.py:make", "net.py:make"),
        ("/x/net.py:make(64, hidden=[1, 2])", "factory", "/x/net.py:make(64, hidden=[1, 2])",
         "net.py:make(64, hidden=[1, 2])"),
        ("net.py:make('/a/b:c')", "factory", f"{HERE}/net.py:make('/a/b:c')", "net.py:make('/a/b:c')"),
        ("my.package.nets:make(64)", "factory", "my.package.nets:make(64)", "my.package.nets:make(64)"),
        ("timm:vit_base_patch16_224", "timm", "timm:vit_base_patch16_224", "timm:vit_base_patch16_224"),
        ("timm:resnet50.a1_in1k", "timm", "timm:resnet50.a1_in1k", "timm:resnet50.a1_in1k"),
    ],
)  # fmt: skip
def test_what_a_name_means_can_be_read_from_it(name, kind, text, short):
    found = read_name(name)

    assert (found.kind, found.text, found.id) == (kind, text, short)
    assert read_name(found.text) == found
    assert short_id(name) == short


@pytest.fixture
def timm(tmp_path, monkeypatch):
    """A timm with a few models, registered as timm registers them; it cannot be imported, which takes long."""
    models = tmp_path / "timm" / "models"
    models.mkdir(parents=True)
    (models.parent / "__init__.py").write_text("raise ImportError")
    names = ("resnet34", "resnet50", "vgg16", "vit_small_patch16_384")
    functions = [
        f"@register_model\ndef {name}(pretrained: bool = False, **kwargs) -> Net:\n    ...\n" for name in names
    ]
    (models / "nets.py").write_text("def helper(x):\n    ...\n\n\n" + "\n\n".join(functions))
    _with_timm(monkeypatch, ModuleSpec("timm", None, is_package=True), models.parent)


@pytest.fixture
def no_timm(monkeypatch):
    _with_timm(monkeypatch, None)


def _with_timm(monkeypatch, spec, folder=None):
    if spec is not None:
        spec.submodule_search_locations.append(str(folder))
    monkeypatch.setattr(timm_names, "find_spec", lambda name: spec)
    timm_names.timm_names.cache_clear()


@pytest.fixture(autouse=True)
def fresh_timm_names():
    yield
    timm_names.timm_names.cache_clear()


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize("name", ["vgg16", "resnet34", "vit_small_patch16_384", "vgg16.tv_in1k"])
def test_a_name_of_timm_needs_no_prefix_where_timm_is_installed(name):
    assert read_name(name).text == f"timm:{name}"


@pytest.mark.usefixtures("timm")
def test_the_catalog_comes_before_timm():
    assert read_name("resnet50").id == "resnet"
    assert read_name("timm:resnet50").kind == "timm"


@pytest.mark.usefixtures("timm")
def test_a_slip_in_a_name_of_timm_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match=r"unknown model 'vgg161': did you mean timm:vgg16\?"):
        read_name("vgg161")


@pytest.mark.usefixtures("no_timm")
@pytest.mark.parametrize("name", ["vgg16", "resnet34", "vit_small_patch16_384", "efficientnet_b3"])
def test_where_timm_is_not_installed_its_names_are_answered_with_how_to_install_it(name):
    with pytest.raises(UsageError, match=rf"{name}.*install timm with `pip install 'memorymark\[timm\]'`"):
        read_name(name)


def test_a_hugging_face_id_of_the_catalog_can_be_meant_as_such():
    assert read_name("openai-community/gpt2", prefer_hub=True).kind == "hub"
    assert read_name("gpt2", prefer_hub=True).kind == "catalog"


def test_the_first_of_two_entries_with_the_same_hugging_face_id_has_it():
    assert read_name("openai-community/gpt2").entry.task == "sequence-classification"
    assert read_name("gpt2-lm").entry.task == "causal-lm"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("brt", "unknown model 'brt': did you mean bert?"),
        ("xyzzy", "unknown model 'xyzzy': try bert, gpt2 or resnet. `memorymark models` lists all"),
        ("llama 2", "unknown model 'llama 2'"),
        ("net.py", "net.py is a program; add the function that makes the workload, as in net.py:make_workload"),
        ("net.py:", "'net.py:' does not name a function"),
        ("net.py:1st", "does not name a function"),
        ("net.py:a.b", "does not name a function"),
        ("not a module:make", "is not a model; write your own workload as file.py:function"),
        ("net.py:make(hidden)", r"the arguments of make\(hidden\) must be plain values"),
        ("net.py:make(open('x'))", "must be plain values"),
        ("net.py:make(**{})", "must be plain values"),
        ("net.py:make(1)(2)", "must be plain values"),
        ("net.py:make(1", "is not a model"),
        ("timm:../x", "is not the name of a timm model"),
        ("timm:hf-hub:org/name", "is not the name of a timm model"),
    ],
)
def test_a_name_that_means_nothing_is_refused(name, complaint):
    with pytest.raises(UsageError, match=complaint):
        read_name(name)


def test_the_arguments_of_a_function_are_plain_values():
    call = read_factory("net.py:make(64, -1.5, 'a:b', hidden=(1, 2), deep=None)")

    assert (call.where, call.function, call.is_file) == ("net.py", "make", True)
    assert call.arguments == (64, -1.5, "a:b")
    assert call.named == {"hidden": (1, 2), "deep": None}


def test_a_name_that_says_nothing_here_stays_as_it_is():
    assert short_id(" my pasted config ") == "my pasted config"


def test_a_name_is_read_without_looking_at_files(tmp_path, monkeypatch):
    """A folder of the working directory must not stand in for what is on Hugging Face."""
    (tmp_path / "org" / "name").mkdir(parents=True)
    (tmp_path / "org" / "name" / "config.json").write_text('{"model_type": "bert"}')
    monkeypatch.chdir(tmp_path)

    assert read_name("org/name").kind == "hub"
