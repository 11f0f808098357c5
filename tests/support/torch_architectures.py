"""Makes small models of transformers' architectures with random weights: configurations as data, without downloads."""

from __future__ import annotations

from typing import Any, NamedTuple


class Config(NamedTuple):
    """A configuration inside another one."""

    config: str
    settings: dict[str, Any]


class Architecture(NamedTuple):
    """A class of transformers, its configuration, and the shapes of its inputs: tokens, or floats (they begin with "f").

    names: of its inputs, if they are not its first ones. results: those that are compared; all if none are given.
    """

    model: str
    config: str
    settings: dict[str, Any]
    inputs: tuple[str, ...] = ("2x9",)
    decodes: bool = False
    names: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


SIZES = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
          "max_position_embeddings": 40}  # fmt: skip
DECODER = {**SIZES, "num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PAIR = {"vocab_size": 50, "d_model": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
         "decoder_ffn_dim": 48, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
         "decoder_start_token_id": 1}  # fmt: skip
IMAGE = ("f2x3x32x32",)

ARCHITECTURES: dict[str, Architecture] = {
    "roberta": Architecture("RobertaModel", "RobertaConfig", SIZES),
    "distilbert": Architecture("DistilBertModel", "DistilBertConfig",
                               {"vocab_size": 50, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}),
    "albert": Architecture("AlbertModel", "AlbertConfig", {**SIZES, "embedding_size": 16}),
    "electra": Architecture("ElectraModel", "ElectraConfig", {**SIZES, "embedding_size": 16}),
    "deberta_v2": Architecture("DebertaV2Model", "DebertaV2Config",
                               {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "clip_text": Architecture("CLIPTextModel", "CLIPTextConfig", SIZES),
    "opt": Architecture("OPTModel", "OPTConfig", {
        "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48,
        "max_position_embeddings": 40, "word_embed_proj_dim": 32, "use_cache": False}),
    "bloom": Architecture("BloomModel", "BloomConfig",
                          {"vocab_size": 50, "hidden_size": 32, "n_layer": 2, "n_head": 4, "use_cache": False}),
    "gpt_neox": Architecture("GPTNeoXModel", "GPTNeoXConfig", {**SIZES, "use_cache": False}),
    "mistral": Architecture("MistralModel", "MistralConfig", DECODER),
    "qwen2": Architecture("Qwen2Model", "Qwen2Config", DECODER),
    "qwen3": Architecture("Qwen3Model", "Qwen3Config", {**DECODER, "head_dim": 8}),
    "gemma2": Architecture("Gemma2Model", "Gemma2Config", {**DECODER, "head_dim": 8}),
    "phi": Architecture("PhiModel", "PhiConfig", DECODER),
    "mixtral": Architecture("MixtralModel", "MixtralConfig", {**DECODER, "num_local_experts": 4}),
    "mamba": Architecture("MambaModel", "MambaConfig",
                          {"vocab_size": 50, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 1, "use_cache": False}),
    "bart": Architecture("BartModel", "BartConfig", {
        **PAIR, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 40}, ("2x9", "2x7"), True),
    "whisper": Architecture("WhisperModel", "WhisperConfig", {
        **PAIR, "encoder_layers": 1, "decoder_layers": 1, "max_source_positions": 20, "max_target_positions": 20,
        "num_mel_bins": 8}, ("f2x8x40", "2x9"), True),
    "wav2vec2": Architecture("Wav2Vec2Model", "Wav2Vec2Config", {
        "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
        "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0}, ("f2x400",)),
    "deit": Architecture("DeiTModel", "DeiTConfig", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32,
        "patch_size": 8}, IMAGE),
    "swin": Architecture("SwinModel", "SwinConfig", {
        "image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}, IMAGE),
    "convnext": Architecture("ConvNextModel", "ConvNextConfig",
                             {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4}, IMAGE),
    "resnet": Architecture("ResNetModel", "ResNetConfig",
                           {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}, IMAGE),
    "mobilenet_v2": Architecture("MobileNetV2Model", "MobileNetV2Config", {"depth_multiplier": 0.25, "image_size": 32}, IMAGE),
    "efficientnet": Architecture("EfficientNetModel", "EfficientNetConfig", {
        "image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.5, "hidden_dim": 320, "kernel_sizes": [3, 3, 5],
        "in_channels": [32, 16, 24], "out_channels": [16, 24, 40], "strides": [1, 2, 2], "num_block_repeats": [1, 1, 1],
        "expand_ratios": [1, 6, 6], "depthwise_padding": []}, IMAGE),
    "regnet": Architecture("RegNetModel", "RegNetConfig", {
        "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 4, "layer_type": "y"}, IMAGE),
    "clip": Architecture("CLIPModel", "CLIPConfig", {
        "text_config": {**SIZES, "eos_token_id": 2}, "projection_dim": 16,
        "vision_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
                          "image_size": 32, "patch_size": 8}}, ("2x9", "f2x3x32x32")),
    "llama_bf16": Architecture("LlamaModel", "LlamaConfig", {**DECODER, "dtype": "bfloat16"}),
    "segformer": Architecture("SegformerForSemanticSegmentation", "SegformerConfig", {
        "hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2, "sr_ratios": [2, 1], "num_attention_heads": [1, 2],
        "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16}, IMAGE),
}  # fmt: skip


def architecture(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a model in evaluation mode and its inputs, the same in every run."""
    return made_architecture(ARCHITECTURES[name])


def made_architecture(entry: Architecture) -> tuple[Any, tuple[Any, ...]]:
    """Return a model in evaluation mode and its inputs, the same in every run."""
    import torch
    import transformers

    class Decoding(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, first: Any, second: Any) -> Any:
            return self.model(first, decoder_input_ids=second, use_cache=False).last_hidden_state

    class Named(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            found = self.model(**dict(zip(entry.names, values, strict=True)))
            return tuple([getattr(found, name) for name in entry.results])

    def config(given: Config) -> Any:
        settings = {key: config(value) if isinstance(value, Config) else value for key, value in given.settings.items()}
        return getattr(transformers, given.config)(**settings)

    torch.manual_seed(0)
    model = getattr(transformers, entry.model)(config(Config(entry.config, entry.settings)))
    inputs = []
    for text in entry.inputs:
        shape = [int(size) for size in text.removeprefix("f").split("x")]
        inputs.append(torch.randn(shape) if text.startswith("f") else torch.randint(1, 50, shape))
    if entry.settings.get("dtype") == "bfloat16":
        model = model.to(torch.bfloat16)
    if entry.names:
        model = Named(model)
    return (Decoding(model) if entry.decodes else model).eval(), tuple(inputs)
